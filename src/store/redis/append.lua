-- KEYS: token, state, log, ids, expiring.
-- ARGV: milliseconds for the token, id, expected end or '', time of append, milliseconds to live or '',
-- system message or '', messages.
-- Returns where the batch begins and ends, as text; or, as a number, the end that was not expected.
local state, log, ids, expiring = KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local id, expected, at, ttl, system = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local time = redis.call('TIME')
local found = redis.call('HMGET', state, 'end', 'active')
local first, active = tonumber(found[1]), tonumber(found[2])
local new = not first
first = first or 0
if expected ~= '' and tonumber(expected) ~= first then return first end

-- Redis looks whether its memory is full when a script first writes, and no more: what could be refused
-- comes first, and then nothing is. A log without a state is what a server left that evicts keys.
if new then
  if redis.call('EXISTS', log) == 1 then redis.call('UNLINK', log) end
  redis.call('ZADD', ids, 0, id)
end
local last = first
for i = 7, #ARGV do
  redis.call('XADD', log, text(last) .. '-1', 'at', at, 'payload', ARGV[i])
  last = last + 1
end
if new then redis.call('HSET', state, 'start', '0', 'born', text(time[1] * 1000000 + time[2])) end
if active and active > tonumber(at) then at = text(active) end
redis.call('HSET', state, 'end', text(last), 'active', at)
if system ~= '' then redis.call('HSET', state, 'system', system) end

if ttl ~= '' then
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local expires = text(now + ttl)
  redis.call('PEXPIREAT', state, expires)
  redis.call('PEXPIREAT', log, expires)
  redis.call('ZADD', expiring, expires, id)
  -- Two go for one that comes, so that the ids of what has expired do not pile up.
  for _, gone in ipairs(redis.call('ZRANGEBYSCORE', expiring, '-inf', '(' .. text(now), 'LIMIT', 0, 2)) do
    redis.call('ZREM', ids, gone)
    redis.call('ZREM', expiring, gone)
  end
elseif redis.call('PERSIST', state) == 1 or new then
  redis.call('PERSIST', log)
  redis.call('ZREM', expiring, id)
end
return finish(text(first) .. ' ' .. text(last))
