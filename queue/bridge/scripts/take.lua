-- take moves waiting tasks to asynq's active list and opens an attempt of each.
-- KEYS  1 asynq's pending list  2 our counts
-- ARGV  3 worker  4 how many at most  5 name of this call: worker, space, something new  6 '1': it was sent before and
--       not answered
-- Returns {now, more, {kind, type, ...}, {id, message, fields}...}. more is 1 when the list goes on behind the entries
-- that were looked at. fields is the record, flat, after the attempt was opened; it is empty for a task without a
-- record, which adopt.lua gets next. Entries whose task has ended, is not pending or has vanished are dropped on the
-- way. A record whose message vanished fails as lost, one whose deadline has passed as expired; their kinds and types
-- come third, and the kind ghost, without a type, for each entry that has no task. A call that was sent before gives
-- again what it took then, as the same attempts: nobody else would, while the worker lives.
local refused = {}
local function refuse(id, kind, message)
  local err = '{"kind":"' .. kind .. '","message":"' .. message .. '","retryable":false}'
  call('HSET', rkey(id), 'error', err)
  finish(id, 'pending', 'failed', 'er', err)
  refused[#refused + 1] = kind
  refused[#refused + 1] = call('HGET', rkey(id), 'type')
end

local taken = {now, 0, refused}
if ARGV[6] == '1' then
  local active = call('LRANGE', A .. 'active', 0, -1)
  for i = #active, 1, -1 do
    local msg, took = unpack(call('HMGET', tkey(active[i]), 'msg', 'take'))
    if msg and took == ARGV[5] then taken[#taken + 1] = {active[i], msg, call('HGETALL', rkey(active[i]))} end
  end
  if #taken > 3 then return taken end
end
if call('EXISTS', A .. 'paused') == 1 or call('EXISTS', KEYS[1]) == 0 then return taken end
regardless() -- a full Redis gets room when the tasks in it run and their retention ends, not by keeping them
local want, looked = tonumber(ARGV[4]), 0
while #taken - 3 < want and looked < want + 100 do
  looked = looked + 1
  local id = call('RPOP', KEYS[1])
  if not id then break end
  local msg, state = unpack(call('HMGET', tkey(id), 'msg', 'state'))
  local status, deadline = unpack(call('HMGET', rkey(id), 'status', 'deadline'))
  local free = status == 'pending' or not status and state == 'pending'
  if status == 'pending' and deadline and tonumber(deadline) <= now then
    refuse(id, 'expired', 'its deadline passed before an attempt could start')
  elseif free and msg then
    call('LPUSH', A .. 'active', id)
    call('ZADD', A .. 'lease', math.floor(now / 1000) + 30, id)
    call('HSET', tkey(id), 'state', 'active', 'take', ARGV[5])
    call('HDEL', tkey(id), 'pending_since')
    local fields = {}
    if status then
      call('HSET', rkey(id), 'epoch', new_epoch(id))
      local attempt = call('HINCRBY', rkey(id), 'attempt', 1)
      call('HINCRBY', rkey(id), 'version', 1)
      call('HSET', rkey(id), 'status', 'running', 'worker', ARGV[3], 'started', now)
      move('pending', 'running')
      emit(id, 'running', 'a', attempt, 'w', ARGV[3])
      fields = call('HGETALL', rkey(id))
    end
    taken[#taken + 1] = {id, msg, fields}
  elseif status == 'pending' then
    refuse(id, 'lost', 'its message vanished from Redis')
  else
    if not status and state ~= 'archived' then
      refused[#refused + 1] = 'ghost'
      refused[#refused + 1] = ''
    end
    bury(id, status, state)
  end
end
taken[2] = call('EXISTS', KEYS[1])
return taken
