-- cancel ends a task that waits, and asks a running one to stop.
-- KEYS  1 record  2 asynq's task
-- ARGV  3 id  4 owner ('' any)  5 who cancels  6 why  7 fields to lay over asynq's message
-- Returns {1, from}    cancelled, or asked to stop when from is running
--         {0, status}  it had ended before; nothing changed
--         {-1}         no such task, or somebody else's
-- The entry of a pending task stays in asynq's list, which may be long; take.lua drops it in passing.
local id = ARGV[3]
local owner, status, asked = unpack(call('HMGET', rkey(id), 'owner', 'status', 'cancel_at'))
if not owner or (ARGV[4] ~= '' and ARGV[4] ~= owner) then return {-1} end
if status == 'completed' or status == 'failed' or status == 'cancelled' then return {0, status} end
if not asked then
  call('HSET', rkey(id), 'cancel_at', now, 'cancel_by', ARGV[5], 'cancel_why', ARGV[6])
end
if status == 'running' then
  if not asked then call('HINCRBY', rkey(id), 'version', 1) end
  return {1, status}
end
undelay(id)
annotate(id, ARGV[7])
finish(id, status, 'cancelled')
return {1, status}
