-- beat says that a worker lives and asks what became of its tasks.
-- KEYS  1 workers
-- ARGV  3 worker  4 what it says of itself (JSON)  5 life of that (ms)  6... id, epoch of each task it runs
-- Returns {now, {ids to cancel}, {ids it has lost}}
call('ZADD', KEYS[1], now, ARGV[3])
call('SET', O .. 'w:' .. ARGV[3], ARGV[4], 'PX', ARGV[5])
local cancel, lost = {}, {}
for i = 6, #ARGV, 2 do
  local epoch, status, asked = unpack(call('HMGET', rkey(ARGV[i]), 'epoch', 'status', 'cancel_at'))
  if epoch ~= ARGV[i + 1] or status ~= 'running' then
    lost[#lost + 1] = ARGV[i]
  elseif asked then
    cancel[#cancel + 1] = ARGV[i]
  end
end
return {now, cancel, lost}
