-- KEYS: token, state, log, slots, versions, known, media, shown, ids, expiring.
-- ARGV: that of the token, id of the conversation, 'begins' | 'changes' | 'nothing' (what it does
-- where there is no conversation, or where there is one, or neither), expected end, now, milliseconds to live,
-- system message, incarnation of what begins, how many messages there are, messages, how many media there
-- are; and of each of these the hash, how many messages stand before the last one that refers to it, the
-- bytes. If there is more to it:
-- id of the append, where what begins is restored, time of activity, incarnation and newest position that
-- were seen, version of what is written to slots, how many times there are, times; and of each slot the
-- name, 'set' | 'remove', the expected version or '-' for none, the content. What is '' is not there.
-- Returns where the batch begins and ends, as text: behind a tab, and before the version, where the id is
-- known. Or a number: the end that was not expected; -1 if what was seen is no more; -1 - i if the slot i
-- is another one.
local state, log, slots, versions, known, media, shown, ids, expiring = unpack(KEYS, 2)
local id, effect, expected, now, ttl, system, incarnation = unpack(ARGV, 2, 8)
local payload = 9
local medium = payload + ARGV[payload] + 1
local more = medium + 3 * ARGV[medium]
local append, start, latest, seen, newest, version = unpack(ARGV, more + 1, more + 6)
local time = more + 7
local timed = tonumber(ARGV[time] or 0)
local slot = time + timed + 1
local function given(argument) return argument and argument ~= '' end

local found = redis.call('HMGET', state, 'end', 'active')
local first, active = tonumber(found[1]), tonumber(found[2])
local new = not first
if given(append) and not new then
  local at = redis.call('LPOS', known, append)
  if at then return again(redis.call('LINDEX', known, at + 1)) end
end
if given(start) and not new then return first end
first = first or tonumber(given(start) and start or 0)
if expected ~= '' and tonumber(expected) ~= first then return first end
if given(seen) or given(newest) then
  local there = redis.call('HMGET', state, 'start', 'incarnation')
  if new or given(seen) and seen ~= there[2] then return -1 end
  local position = tonumber(newest)
  if position and (position < tonumber(there[1]) or position >= first) then return -1 end
end
-- A server that evicts keys may have left one of the two.
if slot <= #ARGV and redis.call('EXISTS', slots, versions) == 1 then redis.call('UNLINK', slots, versions) end
for i = slot, #ARGV, 4 do
  local there = not new and redis.call('HGET', versions, ARGV[i]) or '-'
  if given(ARGV[i + 2]) and ARGV[i + 2] ~= there then return -2 - (i - slot) / 4 end
end
if effect == 'nothing' or new and effect ~= 'begins' then return text(first) .. ' ' .. text(first) end

-- Redis looks whether its memory is full when a script first writes, and no more: what could be refused
-- comes first, and then nothing is. What lies there without a state is what a server left that evicts keys.
if new then
  redis.call('ZADD', ids, 0, id)
  redis.call('UNLINK', log, slots, versions, known, media, shown)
end
local last = first
for i = 1, tonumber(ARGV[payload]) do
  local at = timed > 0 and ARGV[time + i] or now
  redis.call('XADD', log, text(last) .. '-1', 'at', at, 'payload', ARGV[payload + i])
  last = last + 1
end
for i = medium + 1, more, 3 do
  redis.call('HSETNX', media, ARGV[i], ARGV[i + 2])
  -- Positions ascend: no other one that refers to it is newer.
  redis.call('ZADD', shown, text(first + ARGV[i + 1]), ARGV[i])
end
for i = slot, #ARGV, 4 do
  if ARGV[i + 1] == 'set' then
    redis.call('HSET', slots, ARGV[i], ARGV[i + 3])
    redis.call('HSET', versions, ARGV[i], version)
  else
    redis.call('HDEL', slots, ARGV[i])
    redis.call('HDEL', versions, ARGV[i])
  end
end
local positions = text(first) .. ' ' .. text(last)
if given(append) then
  -- An id holds no tab, so that what is found is never what an append came to.
  redis.call('RPUSH', known, append, '\t' .. positions .. ' ' .. version)
  redis.call('LTRIM', known, -128, -1)
end
if new then redis.call('HSET', state, 'start', text(first), 'incarnation', incarnation) end
if given(latest) then now = latest elseif active and active > tonumber(now) then now = found[2] end
redis.call('HSET', state, 'end', text(last), 'active', now)
if system ~= '' then redis.call('HSET', state, 'system', system) end

if ttl ~= '' then
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local expires = text(now + ttl)
  for _, key in ipairs({state, log, slots, versions, known, media, shown}) do
    redis.call('PEXPIREAT', key, expires)
  end
  redis.call('ZADD', expiring, expires, id)
  -- Two go for one that comes, so that the ids of what has expired do not pile up.
  for _, gone in ipairs(redis.call('ZRANGEBYSCORE', expiring, '-inf', '(' .. text(now), 'LIMIT', 0, 2)) do
    redis.call('ZREM', ids, gone)
    redis.call('ZREM', expiring, gone)
  end
elseif redis.call('PERSIST', state) == 1 or new then
  for _, key in ipairs({log, slots, versions, known, media, shown}) do redis.call('PERSIST', key) end
  redis.call('ZREM', expiring, id)
end
return finish(positions)
