-- reconcile looks for disagreements between records and asynq's queue that none of our scripts leaves behind: they
-- come from tools without the bridge, from edits by hand, from a restore. It mends what it finds.
-- KEYS  1 live
-- ARGV  3 worker  4 how long no other worker shall look (ms)  5 '1': first call of a round  6 rank to go on from
--       7 how many at most
-- Returns {-1} another worker looks after the queue; else {next rank or 0 at the end, {kind, ...} one for each repair}
if ARGV[5] == '1' and not call('SET', O .. 'reconcile', ARGV[3], 'NX', 'PX', ARGV[4]) then return {-1} end
local ahead = A .. 'pending'
local repairs = {}
local function repaired(kind) repairs[#repairs + 1] = kind end

-- An entry of the active list that no running record stands behind.
local function check_active(id)
  local status = call('HGET', rkey(id), 'status')
  local msg, state = unpack(call('HMGET', tkey(id), 'msg', 'state'))
  local lease = tonumber(call('ZSCORE', A .. 'lease', id) or 0)
  if status == 'running' then
    if lease == 0 then
      call('ZADD', A .. 'lease', math.floor(now / 1000) + 30, id)
      repaired('lease_missing')
    end
  elseif not msg then
    inactive(id)
    call('DEL', tkey(id))
    repaired('ghost')
  elseif status and state ~= 'active' then
    inactive(id)
    repaired('active_leftover')
  elseif lease < now / 1000 - 30 then -- whoever had it without the bridge is gone
    inactive(id)
    call('HSET', tkey(id), 'state', 'pending', 'pending_since', string.format('%.0f', now * 1000000))
    call('RPUSH', ahead, id)
    repaired('lease_expired')
  end
end

-- Whether a pending task stands in the list. The list may be long, so this is asked only of a task that has waited a
-- minute longer than the one next in line.
local oldest
local function in_line(id, since)
  if oldest == nil then
    local first = call('LINDEX', ahead, -1)
    oldest = first and tonumber(call('HGET', tkey(first), 'pending_since') or 0) or false
  end
  if oldest == false then return false end
  if not since or tonumber(since) > oldest - 60 * 1000000000 then return true end
  return call('LPOS', ahead, id) and true
end

-- follow sets a record's status to what asynq says.
local function follow(id, from, to)
  call('HSET', rkey(id), 'status', to)
  call('HINCRBY', rkey(id), 'version', 1)
  move(from, to)
end

local function archived(id, status)
  call('HSET', rkey(id), 'cancel_at', now, 'cancel_by', 'asynq', 'cancel_why', '')
  undelay(id)
  finish(id, status, 'cancelled')
  repaired('archived')
end

local function check_waiting(id, status, state, since)
  if state == 'archived' then
    archived(id, status)
  elseif state == 'completed' then -- a plain asynq server ran it
    undelay(id)
    finish(id, status, 'completed')
    repaired('completed_elsewhere')
  elseif state == 'pending' then
    if status ~= 'pending' then
      undelay(id)
      follow(id, status, 'pending')
      call('HSET', rkey(id), 'due', now)
      call('HSET', tkey(id), 'pending_since', string.format('%.0f', now * 1000000)) -- asynq's "run" forgets it
      repaired('moved')
    end
    if not in_line(id, since) then
      enqueue(id, false)
      repaired('not_queued')
    end
  elseif state == 'scheduled' or state == 'retry' then
    local at = tonumber(call('ZSCORE', A .. state, id) or 0) * 1000
    local to = state == 'retry' and 'retrying' or 'scheduled'
    if status ~= to or at == 0 or not call('ZSCORE', O .. 'due', id) then
      local known = call('ZSCORE', O .. 'due', id)
      delay(id, to, state, tonumber(known) or (at > 0 and at or now))
      if status ~= to then move(status, to) end
      repaired('moved')
    end
  elseif not call('ZSCORE', A .. 'lease', id) then -- "active", and nobody holds it
    undelay(id)
    enqueue(id, false)
    if status ~= 'pending' then move(status, 'pending') end
    repaired('not_queued')
  end
end

local function check_record(id)
  local status = call('HGET', rkey(id), 'status')
  local msg, state, since = unpack(call('HMGET', tkey(id), 'msg', 'state', 'pending_since'))
  if not status then
    call('ZREM', KEYS[1], id)
    repaired('record_missing')
  elseif status == 'running' then
    if msg and state ~= 'active' then
      undelay(id)
      call('ZREM', A .. 'archived', id)
      call('HSET', tkey(id), 'state', 'active')
      call('LREM', A .. 'active', 0, id)
      call('LPUSH', A .. 'active', id)
      call('ZADD', A .. 'lease', math.floor(now / 1000) + 30, id)
      repaired('moved')
    end
  elseif status == 'completed' or status == 'failed' or status == 'cancelled' then
    call('ZREM', KEYS[1], id)
    repaired('live_leftover')
  elseif not msg then
    local err = '{"kind":"lost","message":"its message vanished from Redis","retryable":false}'
    call('HSET', rkey(id), 'error', err)
    undelay(id)
    finish(id, status, 'failed', 'er', err)
    repaired('message_missing')
  else
    check_waiting(id, status, state, since)
  end
end

local most, from = tonumber(ARGV[7]), tonumber(ARGV[6])
if ARGV[5] == '1' then
  for _, id in ipairs(call('LRANGE', A .. 'active', 0, 999)) do check_active(id) end
  -- Leases without an entry in the list keep nothing alive.
  for _, id in ipairs(call('ZRANGEBYSCORE', A .. 'lease', '-inf', math.floor(now / 1000) - 60, 'LIMIT', 0, 100)) do
    if not call('LPOS', A .. 'active', id) then
      call('ZREM', A .. 'lease', id)
      repaired('lease_leftover')
    end
  end
end
local ids = call('ZRANGE', KEYS[1], from, from + most - 1)
for _, id in ipairs(ids) do check_record(id) end
if #ids < most then return {0, repairs} end
return {from + most, repairs}
