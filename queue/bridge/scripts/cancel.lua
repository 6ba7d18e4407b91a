-- cancel ends a task that waits, and asks a running one to stop.
-- KEYS  1 record  2 asynq's task
-- ARGV  3 id  4 owner ('' any)  5 who cancels  6 why  7 fields to lay over asynq's message  8 name of this call
-- Returns {1, from}    cancelled, or asked to stop when from is running; the same again when the call is sent again
--         {0, status}  it had ended before; nothing changed
--         {-1}         no such task, or somebody else's
-- The entry of a pending task stays in asynq's list, which may be long; take.lua drops it in passing. Those that have
-- come to the list's end are dropped here, so that the entry there is one that waits, whose age asynq's tools show.
local id = ARGV[3]
local owner, status, asked, made = unpack(call('HMGET', rkey(id), 'owner', 'status', 'cancel_at', 'cancel_call'))
if not owner or (ARGV[4] ~= '' and ARGV[4] ~= owner) then return {-1} end
if made and string.sub(made, 1, #ARGV[8]) == ARGV[8] then return {1, string.sub(made, #ARGV[8] + 2)} end
if status == 'completed' or status == 'failed' or status == 'cancelled' then return {0, status} end
regardless()
if not asked then
  call('HSET', rkey(id), 'cancel_at', now, 'cancel_by', ARGV[5], 'cancel_why', ARGV[6], 'cancel_call',
    ARGV[8] .. ' ' .. status)
end
if status == 'running' then
  if not asked then call('HINCRBY', rkey(id), 'version', 1) end
  return {1, status}
end
undelay(id)
annotate(id, ARGV[7])
if status == 'pending' then call('HSET', rkey(id), 'tomb', 1) end
finish(id, status, 'cancelled')
for _ = 1, 100 do
  local last = call('LINDEX', A .. 'pending', -1)
  if not last then break end
  local ended = call('HGET', rkey(last), 'status')
  if not ended or ended == 'pending' then break end
  call('RPOP', A .. 'pending')
  bury(last, ended)
end
return {1, status}
