-- KEYS: token, state, log, slots, versions, known, media, shown, ids, expiring. ARGV: that of the token, position.
-- Returns how many records went, as text.
local found = redis.call('HMGET', KEYS[2], 'start', 'end')
local first, last = tonumber(found[1]), tonumber(found[2])
if not first then return again('0') end
local before = math.min(tonumber(ARGV[2]), last)
if before <= first then return again('0') end
if before == last then
  redis.call('UNLINK', KEYS[3])
else
  redis.call('XTRIM', KEYS[3], 'MINID', text(before) .. '-1')
end
for _, hash in ipairs(redis.call('ZRANGEBYSCORE', KEYS[8], '-inf', '(' .. text(before))) do
  redis.call('HDEL', KEYS[7], hash)
  redis.call('ZREM', KEYS[8], hash)
end
redis.call('HSET', KEYS[2], 'start', text(before))
return finish(text(before - first))
