-- forward makes delayed tasks that are due wait for a worker, at most 100 of each kind.
-- KEYS  1 due
-- ARGV  3 asynq's group key prefix
-- Returns how many it moved. Tasks without a record, from plain asynq producers, are moved as asynq would.
regardless()
local moved = 0
local function forward(id)
  local status = call('HGET', rkey(id), 'status')
  undelay(id)
  if status == 'scheduled' or status == 'retrying' then
    call('HINCRBY', rkey(id), 'version', 1)
    local due = call('HGET', rkey(id), 'due')
    enqueue(id, false)
    call('HSET', rkey(id), 'due', due)
    move(status, 'pending')
    moved = moved + 1
  elseif not status and call('EXISTS', tkey(id)) == 1 then
    local group = call('HGET', tkey(id), 'group')
    if group and group ~= '' then
      call('ZADD', ARGV[3] .. group, math.floor(now / 1000), id)
      call('HSET', tkey(id), 'state', 'aggregating')
    else
      call('LPUSH', A .. 'pending', id)
      call('HSET', tkey(id), 'state', 'pending', 'pending_since', string.format('%.0f', now * 1000000))
    end
    moved = moved + 1
  end
end
for _, id in ipairs(call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 100)) do forward(id) end
for _, set in ipairs({'scheduled', 'retry'}) do
  for _, id in ipairs(call('ZRANGEBYSCORE', A .. set, '-inf', math.floor(now / 1000), 'LIMIT', 0, 100)) do forward(id) end
end
return moved
