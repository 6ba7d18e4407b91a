-- write stores what a running attempt reports.
-- KEYS  1 record
-- ARGV  3 id  4 epoch  5 kind: progress custom output  6 type of a custom event  7 progress, payload (JSON) or text  8 offset of that text
-- Returns 1 stored, 0 stale: the attempt is not the current one.
local id = ARGV[3]
local epoch, status = unpack(call('HMGET', rkey(id), 'epoch', 'status'))
if epoch ~= ARGV[4] or status ~= 'running' then return 0 end
if ARGV[5] == 'output' then
  write_output(id, ARGV[7], ARGV[8])
  return 1
end
if ARGV[5] == 'progress' then call('HSET', rkey(id), 'progress', ARGV[7]) end
call('HINCRBY', rkey(id), 'version', 1)
emit(id, ARGV[5], 'ty', ARGV[6], 'p', ARGV[7])
return 1
