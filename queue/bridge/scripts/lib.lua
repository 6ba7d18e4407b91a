-- lib: what the scripts of this folder share. It is put in front of each of them.
--
-- Every script gets ARGV[1] = asynq's key prefix of the queue ("asynq:{q}:") and ARGV[2] = ours ("offstage:{q}:").
-- Both carry the queue's hash tag, so whatever a script touches lives in one slot. Times are milliseconds of Redis'
-- own clock unless a name says otherwise. Each script writes to a record or a counter first (or to nothing, see
-- regardless): when Redis refuses writes (memory, replica, disk), that first write fails and nothing has changed.
--
-- Keys under our prefix (docs/architecture.md has the table):
--   t:<id> record   e:<id> events   o:<id> output   index, index:<owner> all ids by number   seq counters
--   live ids that have not ended, by creation   expiry ended ids, by expiry   due delayed ids, by due time
--   counts tasks by status   workers worker ids, by last heartbeat   w:<worker> what a worker says of itself
local A, O = ARGV[1], ARGV[2]
local call = redis.call

local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)

local function rkey(id) return O .. 't:' .. id end
local function tkey(id) return A .. 't:' .. id end

-- regardless lets a script write although Redis is out of memory: Redis asks only before a script's first write that
-- needs memory, and this one needs none. It is for scripts that make room in the end, or keep order meanwhile.
local function regardless() call('ZREM', A .. 'lease', '') end

-- move counts one task from one status to another; either may be nil.
local function move(from, to)
  if from then call('HINCRBY', O .. 'counts', from, -1) end
  if to then call('HINCRBY', O .. 'counts', to, 1) end
end

-- emit appends an event. Numbers are gapless: 1 is the creation, which is derived from the record and not stored.
local function emit(id, kind, ...)
  local seq = call('HINCRBY', rkey(id), 'seq', 1)
  call('XADD', O .. 'e:' .. id, 'MAXLEN', '~', 10000, seq .. '-0', 'k', kind, 'at', now, ...)
end

-- annotate lays protobuf fields over asynq's message: it cuts what an earlier call laid on and appends fields, for
-- in protobuf the last value of a field counts.
local function annotate(id, fields)
  local msg = call('HGET', tkey(id), 'msg')
  if not msg then return end
  local base = tonumber(call('HGET', rkey(id), 'mlen') or #msg)
  call('HSET', tkey(id), 'msg', string.sub(msg, 1, base) .. fields)
end

-- inactive takes a task off asynq's active list and lease set.
local function inactive(id)
  call('LREM', A .. 'active', 0, id)
  call('ZREM', A .. 'lease', id)
  call('HDEL', tkey(id), 'take')
end

-- new_epoch is the fencing token of an attempt that begins: greater than any before, and not the one that was given by a
-- Redis whose replica is promoted without having heard of it - a counter would give the same again.
local function new_epoch(id)
  return string.format('%.0f', math.max(tonumber(call('HGET', rkey(id), 'epoch') or 0) + 1, now))
end

-- holder is the worker that has a task of asynq's active list, and the task's status; nil for a task that a plain asynq
-- server runs. A task that has been taken and not adopted yet has no status.
local function holder(id)
  local status, worker = unpack(call('HMGET', rkey(id), 'status', 'worker'))
  if status then return status == 'running' and worker or nil, status end
  return string.match(call('HGET', tkey(id), 'take') or '', '^(.*) [^ ]*$'), nil
end

-- enqueue makes a task wait for a worker; front puts it before those that wait already. A task that was cancelled
-- while it waited may still have its entry ("tomb", see cancel.lua): that becomes good again.
local function enqueue(id, front)
  call('HSET', rkey(id), 'status', 'pending', 'due', now)
  call('HSET', tkey(id), 'state', 'pending', 'pending_since', string.format('%.0f', now * 1000000))
  if call('HDEL', rkey(id), 'tomb') == 0 then call(front and 'RPUSH' or 'LPUSH', A .. 'pending', id) end
end

-- bury settles an entry of a task that does not wait, just popped from the pending list. status is nil or false for a
-- task without a record; state is asynq's.
local function bury(id, status, state)
  if status then
    if call('HDEL', rkey(id), 'tomb') == 1 then
      call('PEXPIREAT', tkey(id), tonumber(call('HGET', rkey(id), 'expires')) + 86400000)
    end
  elseif state == 'archived' then -- what erase or the end of a record's life left for the entry's sake
    call('DEL', tkey(id))
    call('ZREM', A .. 'archived', id)
  end
end

-- delay makes a task wait until due, in asynq's set called state ("scheduled" or "retry"). asynq's scores are whole
-- seconds; ours has the millisecond.
local function delay(id, status, state, due)
  call('HSET', rkey(id), 'status', status, 'due', due)
  call('HSET', tkey(id), 'state', state)
  call('ZADD', A .. state, math.ceil(due / 1000), id)
  call('ZADD', O .. 'due', due, id)
end

-- undelay takes a task out of every set it may wait in.
local function undelay(id)
  call('ZREM', O .. 'due', id)
  call('ZREM', A .. 'scheduled', id)
  call('ZREM', A .. 'retry', id)
end

-- stats counts a processed (and failed) task where asynq's tools look. day is "yyyy-mm-dd", UTC.
local function stats(day, failed)
  local names = failed and {'processed', 'failed'} or {'processed'}
  for _, name in ipairs(names) do
    call('INCR', A .. name)
    if call('INCR', A .. name .. ':' .. day) == 1 then
      call('EXPIRE', A .. name .. ':' .. day, 90 * 86400)
    end
  end
end

-- finish gives a task its terminal status: the record, its place in asynq, its event, its expiry. The caller has
-- taken it out of the lists it was in. from is the status it leaves. Extra event fields follow.
local function finish(id, from, status, ...)
  local keep = tonumber(call('HGET', rkey(id), 'keep') or 86400000)
  local expires = now + keep
  call('HSET', rkey(id), 'status', status, 'done', now, 'expires', expires)
  call('HDEL', tkey(id), 'pending_since')
  if status == 'completed' then call('HSET', rkey(id), 'progress', 1) end
  call('HINCRBY', rkey(id), 'version', 1)
  move(from, status)
  emit(id, status, ...)
  if call('EXISTS', tkey(id)) == 1 then
    if status == 'completed' then
      call('HSET', tkey(id), 'state', 'completed')
      call('ZADD', A .. 'completed', math.ceil(expires / 1000), id)
    else
      call('HSET', tkey(id), 'state', 'archived')
      call('ZADD', A .. 'archived', math.floor(now / 1000), id)
    end
    local lock = call('HGET', tkey(id), 'unique_key')
    if lock and lock ~= '' and call('GET', lock) == id then call('DEL', lock) end
  end
  call('ZREM', O .. 'live', id)
  call('ZADD', O .. 'expiry', expires, id)
  -- purge.lua removes the task when it expires; these are the net below it, for a queue that nobody serves.
  local net = expires + 86400000
  call('PEXPIREAT', rkey(id), net)
  if call('HEXISTS', rkey(id), 'tomb') == 0 then call('PEXPIREAT', tkey(id), net) end
  call('PEXPIREAT', O .. 'e:' .. id, net)
  call('PEXPIREAT', O .. 'o:' .. id, net)
end

-- erase removes every trace of a task. One whose entry is still in the pending list keeps an empty hash until take.lua
-- drops both, for asynq's statistics of a queue fail on an entry without one.
local function erase(id)
  local owner, status, tomb = unpack(call('HMGET', rkey(id), 'owner', 'status', 'tomb'))
  if owner then call('ZREM', O .. 'index:' .. owner, id) end
  if status then move(status, nil) end
  call('DEL', rkey(id), tkey(id), O .. 'e:' .. id, O .. 'o:' .. id)
  if tomb then call('HSET', tkey(id), 'state', 'archived') end
  call('ZREM', O .. 'index', id)
  call('ZREM', O .. 'live', id)
  call('ZREM', O .. 'expiry', id)
  call('ZREM', A .. 'completed', id)
  call('ZREM', A .. 'archived', id)
end

-- write_output appends text, which begins at byte offset of everything the task writes, and keeps the tail, cut at the
-- start of a rune. What was stored before is passed over, so that a write may be sent again.
local function write_output(id, text, offset)
  local known = tonumber(call('HGET', rkey(id), 'olen') or 0) - tonumber(offset)
  if known > 0 then text = string.sub(text, known + 1) end
  if text == '' then return end
  if known < 0 then -- the writer dropped more than is kept while Redis was away
    call('DEL', O .. 'o:' .. id)
    call('HINCRBY', rkey(id), 'olen', -known)
  end
  call('HINCRBY', rkey(id), 'olen', #text)
  local size = call('APPEND', O .. 'o:' .. id, text)
  if size <= 98304 then return end
  local tail = call('GETRANGE', O .. 'o:' .. id, -65536, -1)
  local first = 1
  while first <= 4 and string.byte(tail, first) >= 0x80 and string.byte(tail, first) < 0xC0 do first = first + 1 end
  call('SET', O .. 'o:' .. id, string.sub(tail, first))
end

