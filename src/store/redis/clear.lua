-- KEYS: token, state, log, slots, versions. ARGV: that of the token, the incarnation that begins.
local last = redis.call('HGET', KEYS[2], 'end')
if not last then return again('') end
redis.call('UNLINK', KEYS[3], KEYS[4], KEYS[5])
redis.call('HDEL', KEYS[2], 'system')
redis.call('HSET', KEYS[2], 'start', last, 'incarnation', ARGV[2])
return finish('')
