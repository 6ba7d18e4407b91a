-- rerun makes a task wait for a worker again: one that failed or was cancelled as a new run with its retries
-- unspent, one that is delayed at once.
-- KEYS  1 record  2 asynq's task
-- ARGV  3 id  4 owner ('' any)  5 '1': delayed tasks too  6 name of this call
-- Returns {1, from}    it is pending; the same again when the call is sent again
--         {0, status}  its status does not allow that
--         {-1}         no such task, or somebody else's
--         {-2}         asynq's message is gone, so there is nothing to run
local id = ARGV[3]
local owner, status, made = unpack(call('HMGET', rkey(id), 'owner', 'status', 'rerun_call'))
if not owner or (ARGV[4] ~= '' and ARGV[4] ~= owner) then return {-1} end
if made and string.sub(made, 1, #ARGV[6]) == ARGV[6] then return {1, string.sub(made, #ARGV[6] + 2)} end
local ended = status == 'failed' or status == 'cancelled'
local delayed = (status == 'scheduled' or status == 'retrying') and ARGV[5] == '1'
if not ended and not delayed then return {0, status} end
if call('HEXISTS', tkey(id), 'msg') == 0 then return {-2} end
call('HINCRBY', rkey(id), 'epoch', 1)
call('HSET', rkey(id), 'rerun_call', ARGV[6] .. ' ' .. status)
call('HINCRBY', rkey(id), 'version', 1)
undelay(id)
if ended then
  call('HDEL', rkey(id), 'error', 'done', 'expires', 'progress', 'tries', 'interruptions', 'cancel_at', 'cancel_by', 'cancel_why',
    'cancel_call', 'abandoned')
  call('HDEL', tkey(id), 'result')
  call('ZREM', A .. 'archived', id)
  call('ZREM', O .. 'expiry', id)
  call('ZADD', O .. 'live', call('HGET', rkey(id), 'created'), id)
  call('PERSIST', rkey(id))
  call('PERSIST', tkey(id))
  call('PERSIST', O .. 'e:' .. id)
  call('PERSIST', O .. 'o:' .. id)
  annotate(id, '')
  emit(id, 'retrying', 'due', now)
end
enqueue(id, false)
move(status, 'pending')
return {1, status}
