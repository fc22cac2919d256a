-- KEYS: token, state, log, slots, versions, known, media, shown, ids, expiring. ARGV: that of the token, the incarnation that begins.
local last = redis.call('HGET', KEYS[2], 'end')
if not last then return again('') end
redis.call('UNLINK', KEYS[3], KEYS[4], KEYS[5], KEYS[7], KEYS[8])
redis.call('HDEL', KEYS[2], 'system')
redis.call('HSET', KEYS[2], 'start', last, 'incarnation', ARGV[2])
return finish('')
