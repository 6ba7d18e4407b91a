-- create writes a task's record and asynq's queue entry in one step.
-- KEYS  1 record  2 asynq's task
-- ARGV  3 id  4 asynq message  5 owner  6 type  7 spec (JSON)  8 run at (ms since epoch, 0: none)  9 delay (ms)
--       10 retention (ms)  11 idempotency key ('' none)  12 hash of the request  13 life of that key (ms)
--       14 deadline (ms since epoch, 0: none)
-- Returns {1, n, created, due, status}  created, or created by an earlier call with the same id
--         {2, id}                       the idempotency key is known with the same request
--         {-2}                          ... with another request
--         {0}                           asynq has a task of that id which is not ours

-- touch writes to a record without a change: a connection that waits for replicas waits for what it wrote itself.
local function touch(known)
  regardless()
  if call('EXISTS', rkey(known)) == 1 then call('HINCRBY', rkey(known), 'version', 0) end
end

local id, owner = ARGV[3], ARGV[5]
local idem = ARGV[11] ~= '' and O .. 'idem:' .. owner .. ':' .. ARGV[11]
if idem then
  local known = call('GET', idem)
  if known and string.sub(known, 66) ~= id then
    if string.sub(known, 1, 64) ~= ARGV[12] then return {-2} end
    touch(string.sub(known, 66))
    return {2, string.sub(known, 66)}
  end
end
local own = call('HMGET', rkey(id), 'n', 'created', 'due', 'status')
if own[1] then
  touch(id)
  return {1, tonumber(own[1]), tonumber(own[2]), tonumber(own[3]), own[4]}
end
if call('EXISTS', tkey(id)) == 1 then return {0} end

local due = now
if tonumber(ARGV[8]) > 0 then due = tonumber(ARGV[8]) else due = now + tonumber(ARGV[9]) end
local n = call('HINCRBY', O .. 'seq', owner, 1) - 1
call('HSET', rkey(id), 'owner', owner, 'type', ARGV[6], 'spec', ARGV[7], 'keep', ARGV[10], 'n', n, 'created', now,
  'mlen', #ARGV[4], 'seq', 1, 'version', 1)
if tonumber(ARGV[14]) > 0 then call('HSET', rkey(id), 'deadline', ARGV[14]) end
call('ZADD', O .. 'index', call('HINCRBY', O .. 'seq', '', 1), id)
call('ZADD', O .. 'index:' .. owner, n, id)
call('ZADD', O .. 'live', now, id)
call('HSET', tkey(id), 'msg', ARGV[4])
local status = 'pending'
if due > now then
  status = 'scheduled'
  delay(id, 'scheduled', 'scheduled', due)
else
  due = now
  enqueue(id, false)
end
move(nil, status)
if idem then call('SET', idem, ARGV[12] .. ' ' .. id, 'PX', ARGV[13]) end
return {1, n, now, due, status}
