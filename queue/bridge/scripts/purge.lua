-- purge removes tasks whose retention is over, at most 100, and as many that plain asynq servers completed: asynq's own
-- script goes by the clock of the machine that sends it.
-- KEYS  1 expiry
-- Returns how many it removed.
local ids = call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 100)
for _, id in ipairs(ids) do erase(id) end
local removed = #ids
for _, id in ipairs(call('ZRANGEBYSCORE', A .. 'completed', '-inf', math.floor(now / 1000), 'LIMIT', 0, 100)) do
  if call('EXISTS', rkey(id)) == 0 then
    call('ZREM', A .. 'completed', id)
    call('DEL', tkey(id))
    removed = removed + 1
  end
end
return removed
