-- leave says that a worker has stopped. If it holds a task all the same - the reply that gave it the task was lost - it is
-- kept as one that has been silent for ever, so that the next takeover frees the task.
-- KEYS  1 workers
-- ARGV  3 worker
-- Returns 1 it is forgotten, 0 it is kept
regardless()
call('DEL', O .. 'w:' .. ARGV[3])
for _, id in ipairs(call('LRANGE', A .. 'active', 0, -1)) do
  if holder(id) == ARGV[3] then
    call('ZADD', KEYS[1], 0, ARGV[3])
    return 0
  end
end
call('ZREM', KEYS[1], ARGV[3])
return 1
