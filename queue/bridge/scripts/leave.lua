-- leave says that a worker has stopped and holds no task.
-- KEYS  1 workers
-- ARGV  3 worker
call('ZREM', KEYS[1], ARGV[3])
call('DEL', O .. 'w:' .. ARGV[3])
return 1
