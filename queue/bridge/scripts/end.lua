-- end writes how an attempt ended, together with asynq's own move.
-- KEYS  1 record  2 asynq's task
-- ARGV  3 id  4 epoch  5 outcome: completed failed cancelled retry release  6 result ('' none)  7 error (JSON, '' none)
--       8 failed attempts (JSON, '' unchanged)  9 fields to lay over asynq's message  10 delay (ms; retry, and
--       release of a task whose body never began)
--       11 notice (JSON, '' none)  12 day "yyyy-mm-dd"  13 last output  14 '1': the body still runs  15 offset of that output
--       16 fields to lay over instead when the task was asked to cancel  17 '1': although Redis is out of memory
-- Returns {1, status, now, cancel requested at or 0}  written
--         {2, status}  this attempt's end was written before (its reply was lost)
--         {0, status}  stale: another attempt has the task, or it has ended
--         {-1}         there is no record
-- A task that was asked to cancel ends cancelled, whatever its body did.
local id, epoch, outcome = ARGV[3], ARGV[4], ARGV[5]
local status, current, ended, cancel = unpack(call('HMGET', rkey(id), 'status', 'epoch', 'ended', 'cancel_at'))
if not status then return {-1} end
if ended == epoch then return {2, status} end
if current ~= epoch or status ~= 'running' then return {0, status} end
if cancel then outcome = 'cancelled' end
if ARGV[17] == '1' then regardless() end

call('HSET', rkey(id), 'ended', epoch)
write_output(id, ARGV[13], ARGV[15])
if ARGV[14] == '1' and cancel then call('HSET', rkey(id), 'abandoned', 1) end
inactive(id)
if ARGV[6] ~= '' then call('HSET', tkey(id), 'result', ARGV[6]) end

if outcome == 'release' then
  call('HINCRBY', rkey(id), 'version', 1)
  if tonumber(ARGV[10]) > 0 then -- its body never began
    call('HINCRBY', rkey(id), 'attempt', -1)
    delay(id, 'scheduled', 'scheduled', now + tonumber(ARGV[10]))
    move('running', 'scheduled')
    return {1, 'scheduled', now, 0}
  end
  call('HINCRBY', rkey(id), 'interruptions', 1)
  enqueue(id, true)
  move('running', 'pending')
  return {1, 'pending', now, 0}
end

if ARGV[8] ~= '' and outcome ~= 'cancelled' then call('HSET', rkey(id), 'errors', ARGV[8]) end
annotate(id, cancel and ARGV[16] or ARGV[9])
if outcome == 'retry' then
  call('HINCRBY', rkey(id), 'version', 1)
  call('HINCRBY', rkey(id), 'tries', 1)
  delay(id, 'retrying', 'retry', now + tonumber(ARGV[10]))
  move('running', 'retrying')
  emit(id, 'retrying', 'er', ARGV[7], 'due', now + tonumber(ARGV[10]))
  stats(ARGV[12], true)
  return {1, 'retrying', now, 0}
end

if outcome == 'failed' then call('HSET', rkey(id), 'error', ARGV[7]) end
finish(id, 'running', outcome, 'n', ARGV[11], 'er', outcome == 'failed' and ARGV[7] or '')
stats(ARGV[12], outcome == 'failed')
return {1, outcome, now, tonumber(cancel or 0)}
