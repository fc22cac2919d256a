-- KEYS: token, state, log, ids, expiring, arrived. ARGV: two of the token, id, the dumps of state and log or '',
-- when they expire or '', incarnation, when it was begun or ''. Puts a conversation of version 1 where version 2
-- has it, unless it has arrived before, or makes of it what it is in version 2 where it lies. Returns 'taken', and
-- does nothing, where there is another one.
local state, log, ids, expiring, arrived = unpack(KEYS, 2)
local id, dump, entries, expires, incarnation, born = unpack(ARGV, 3)
-- Whoever upgrades at the same time may have read it before it left its old place, and somebody may have deleted
-- it since. That it has arrived is known until long after the upgrade; when it was begun tells it from one that an
-- older program has begun in its old place since.
local has_arrived = tonumber(redis.call('ZSCORE', arrived, id) or -1) == (tonumber(born) or 0)
if dump ~= '' and not has_arrived then
  if redis.call('EXISTS', state) == 1 then return again('taken') end
  redis.call('UNLINK', log)
  if entries ~= '' then redis.call('RESTORE', log, 0, entries) end
  redis.call('RESTORE', state, 0, dump)
  redis.call('ZADD', ids, 0, id)
  if expires ~= '' then
    redis.call('PEXPIREAT', state, expires)
    redis.call('PEXPIREAT', log, expires)
    redis.call('ZADD', expiring, expires, id)
  end
  redis.call('ZADD', arrived, born ~= '' and born or 0, id)
end
if redis.call('HDEL', state, 'born') == 1 then redis.call('HSET', state, 'incarnation', incarnation) end
return finish('')
