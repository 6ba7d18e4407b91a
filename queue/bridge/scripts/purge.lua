-- purge removes tasks whose retention is over, at most 100.
-- KEYS  1 expiry
-- Returns how many it removed.
local ids = call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 100)
for _, id in ipairs(ids) do erase(id) end
return #ids
