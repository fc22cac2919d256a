-- KEYS: token, state, log, ids, expiring. ARGV: two of the token, id, the dumps of state and log or '',
-- when they expire or '', incarnation. Puts a conversation of version 1 where version 2 has it, unless it is
-- there, or makes of it what it is in version 2 where it lies.
local state, log, ids, expiring = unpack(KEYS, 2)
local id, dump, entries, expires, incarnation = unpack(ARGV, 3)
if dump ~= '' and redis.call('EXISTS', state) == 0 then
  redis.call('UNLINK', log)
  redis.call('RESTORE', state, 0, dump)
  if entries ~= '' then redis.call('RESTORE', log, 0, entries) end
  redis.call('ZADD', ids, 0, id)
  if expires ~= '' then
    redis.call('PEXPIREAT', state, expires)
    redis.call('PEXPIREAT', log, expires)
    redis.call('ZADD', expiring, expires, id)
  end
end
if redis.call('HDEL', state, 'born') == 1 then redis.call('HSET', state, 'incarnation', incarnation) end
return finish('')
