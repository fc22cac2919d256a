-- KEYS: state, log, slots, versions. ARGV: the newest entry, how many entries, how many slots, their names, and
-- the first and the last of each stretch of single entries. Returns what the transaction of a read returns.
local found = {
  redis.call('HMGET', KEYS[1], 'start', 'end', 'system', 'incarnation'),
  redis.call('XREVRANGE', KEYS[2], ARGV[1], '-', 'COUNT', ARGV[2]),
}
local stretches = 4 + ARGV[3]
if stretches > 4 then
  local contents, versions = {}, {}
  for i = 4, stretches - 1 do
    contents[i - 3] = redis.call('HGET', KEYS[3], ARGV[i])
    versions[i - 3] = redis.call('HGET', KEYS[4], ARGV[i])
  end
  found[3], found[4] = contents, versions
end
for i = stretches, #ARGV, 2 do
  found[#found + 1] = redis.call('XRANGE', KEYS[2], ARGV[i], ARGV[i + 1])
end
return found
