-- KEYS: token, state, log, ids, expiring, arrived. ARGV: two of the token, id, the dumps of state and log or '',
-- when they expire or '', incarnation. Puts a conversation of version 1 where version 2 has it, unless it is
-- there or has been, or makes of it what it is in version 2 where it lies.
local state, log, ids, expiring, arrived = unpack(KEYS, 2)
local id, dump, entries, expires, incarnation = unpack(ARGV, 3)
-- Whoever upgrades at the same time may have read it before it left its old place, and somebody may have deleted
-- it since. That it has arrived is known for an hour, which is far longer than such a change is waited for.
local has_arrived = redis.call('ZSCORE', arrived, id)
if dump ~= '' and not has_arrived and redis.call('EXISTS', state) == 0 then
  redis.call('UNLINK', log)
  if entries ~= '' then redis.call('RESTORE', log, 0, entries) end
  redis.call('RESTORE', state, 0, dump)
  redis.call('ZADD', ids, 0, id)
  if expires ~= '' then
    redis.call('PEXPIREAT', state, expires)
    redis.call('PEXPIREAT', log, expires)
    redis.call('ZADD', expiring, expires, id)
  end
  redis.call('ZADD', arrived, 0, id)
  redis.call('PEXPIREAT', arrived, text(clock[1] * 1000 + 3600000))
end
if redis.call('HDEL', state, 'born') == 1 then redis.call('HSET', state, 'incarnation', incarnation) end
return finish('')
