-- KEYS: token, state, log. ARGV: that of the token, position. Returns how many went, as text.
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
redis.call('HSET', KEYS[2], 'start', text(before))
return finish(text(before - first))
