-- beat says that a worker lives and asks what became of its tasks.
-- KEYS  1 workers
-- ARGV  3 worker  4 what it says of itself (JSON)  5 life of that (ms)  6 name for a keyspace that has none
--       7... id, epoch of each task it runs
-- Returns {now, {ids to cancel}, {ids it has lost}, name of the keyspace}. The name tells when Redis was emptied or
-- replaced by another; it has no TTL for that reason.
regardless()
call('ZADD', KEYS[1], now, ARGV[3])
call('SET', O .. 'w:' .. ARGV[3], ARGV[4], 'PX', ARGV[5])
local cancel, lost = {}, {}
for i = 7, #ARGV, 2 do
  local epoch, status, asked = unpack(call('HMGET', rkey(ARGV[i]), 'epoch', 'status', 'cancel_at'))
  if epoch ~= ARGV[i + 1] or status ~= 'running' then
    lost[#lost + 1] = ARGV[i]
  elseif asked then
    cancel[#cancel + 1] = ARGV[i]
  end
end
call('SET', O .. 'keyspace', ARGV[6], 'NX')
return {now, cancel, lost, call('GET', O .. 'keyspace')}
