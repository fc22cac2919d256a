-- Goes before each script that changes something. KEYS[1] is a token of this one change; what it returned
-- is kept there for ARGV[1] milliseconds, so that a change whose answer got lost can be asked for again. In
-- ARGV[2] is the time, in milliseconds, after which nobody waits for it: what comes later is not done.
local done = redis.call('GET', KEYS[1])
if done then return done end
local clock = redis.call('TIME')
if clock[1] * 1000 + math.floor(clock[2] / 1000) > tonumber(ARGV[2]) then
  return redis.error_reply('LATE nobody waits for the change any more')
end
local function finish(result)
  redis.call('SET', KEYS[1], result, 'PX', ARGV[1])
  return result
end
-- `..` and `tostring` write large numbers as 1e+14.
local function text(number) return string.format('%.0f', number) end
