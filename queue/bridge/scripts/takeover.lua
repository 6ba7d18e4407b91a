-- takeover frees the running tasks of workers that stopped beating, those too that were taken and not adopted yet, and
-- strays: tasks of a worker that lives and does not know of them, because the reply of their take was lost, or because a
-- replica was promoted that had not heard of their end.
-- KEYS  1 workers
-- ARGV  3 life of a heartbeat (ms)  4 most interruptions  5 error of a task interrupted more often (JSON)
--       6 how many at most  7 day "yyyy-mm-dd"  8 worker whose strays are freed ('' none)
--       9 age (ms) from which on it must know of a task  10... ids that it knows
-- Returns {freed, failed, cancelled}. A freed task is first in line, with a new epoch, its retries unspent. One that
-- was interrupted before may be what kills workers: those start one after the other, 2 s apart, so that the innocent
-- among them get to their end.
regardless()
local alive = {}
for _, w in ipairs(call('ZRANGEBYSCORE', KEYS[1], '(' .. (now - tonumber(ARGV[3])), '+inf')) do alive[w] = true end
local known = {}
for i = 10, #ARGV do known[ARGV[i]] = true end
-- A task that was not adopted has no time of its own: its lease is not extended while asynq does not hold it.
local function stray(id, worker, status)
  if worker ~= ARGV[8] or known[id] then return false end
  if status then return tonumber(call('HGET', rkey(id), 'started')) <= now - tonumber(ARGV[9]) end
  return tonumber(call('ZSCORE', A .. 'lease', id) or 0) < now / 1000
end
local freed, failed, cancelled, left = 0, 0, 0, tonumber(ARGV[6])
local suspects = 0
for _, id in ipairs(call('LRANGE', A .. 'active', 0, -1)) do
  local worker, status = holder(id)
  if worker and (not alive[worker] or stray(id, worker, status)) then
    left = left - 1
    if left < 0 then break end
    local asked = call('HGET', rkey(id), 'cancel_at')
    local n = 0
    if status then
      call('HINCRBY', rkey(id), 'epoch', 1)
      call('HINCRBY', rkey(id), 'version', 1)
      n = call('HINCRBY', rkey(id), 'interruptions', 1)
    end
    inactive(id)
    if not status then
      call('RPUSH', A .. 'pending', id)
      call('HSET', tkey(id), 'state', 'pending', 'pending_since', string.format('%.0f', now * 1000000))
      freed = freed + 1
    elseif asked then
      finish(id, status, 'cancelled')
      stats(ARGV[7], false)
      cancelled = cancelled + 1
    elseif n > tonumber(ARGV[4]) then
      call('HSET', rkey(id), 'error', ARGV[5])
      finish(id, status, 'failed', 'er', ARGV[5])
      stats(ARGV[7], true)
      failed = failed + 1
    elseif n > 1 and suspects > 0 then
      delay(id, 'scheduled', 'scheduled', now + math.min(suspects * 2000, 60000))
      move(status, 'scheduled')
      suspects = suspects + 1
      freed = freed + 1
    else
      if n > 1 then suspects = 1 end
      enqueue(id, true)
      move(status, 'pending')
      freed = freed + 1
    end
  end
end
if left >= 0 then
  for _, w in ipairs(call('ZRANGEBYSCORE', KEYS[1], '-inf', now - tonumber(ARGV[3]))) do
    call('ZREM', KEYS[1], w)
  end
end
return {freed, failed, cancelled}
