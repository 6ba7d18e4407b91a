-- delete removes a task that has ended.
-- KEYS  1 record  2 asynq's task
-- ARGV  3 id  4 owner ('' any)
-- Returns {1, status} deleted;  {0, status} it has not ended;  {-1} no such task, or somebody else's
local id = ARGV[3]
local owner, status = unpack(call('HMGET', rkey(id), 'owner', 'status'))
if not owner or (ARGV[4] ~= '' and ARGV[4] ~= owner) then return {-1} end
if status ~= 'completed' and status ~= 'failed' and status ~= 'cancelled' then return {0, status} end
erase(id)
return {1, status}
