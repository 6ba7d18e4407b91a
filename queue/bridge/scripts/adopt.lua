-- adopt gives a record to a task that a plain asynq producer enqueued and a worker just took, its first attempt open.
-- KEYS  1 record  2 asynq's task
-- ARGV  3 id  4 worker  5 owner  6 type  7 spec (JSON)  8 retention (ms)  9 length of the message
--       10 deadline (ms since epoch, 0: none)
-- Returns {now, fields}: the record, flat. A record that exists is returned as it is.
local id, owner = ARGV[3], ARGV[5]
if call('EXISTS', rkey(id)) == 0 then
  local n = call('HINCRBY', O .. 'seq', owner, 1) - 1
  call('HSET', rkey(id), 'owner', owner, 'type', ARGV[6], 'spec', ARGV[7], 'keep', ARGV[8], 'n', n, 'created', now,
    'due', now, 'mlen', ARGV[9], 'seq', 1, 'version', 1, 'epoch', new_epoch(id), 'attempt', 1, 'status', 'running',
    'worker', ARGV[4], 'started', now)
  if tonumber(ARGV[10]) > 0 then call('HSET', rkey(id), 'deadline', ARGV[10]) end
  call('ZADD', O .. 'index', call('HINCRBY', O .. 'seq', '', 1), id)
  call('ZADD', O .. 'index:' .. owner, n, id)
  call('ZADD', O .. 'live', now, id)
  move(nil, 'running')
  emit(id, 'running', 'a', 1, 'w', ARGV[4])
end
return {now, call('HGETALL', rkey(id))}
