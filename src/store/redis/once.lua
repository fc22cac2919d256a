-- Goes before each script that changes something. KEYS[1] is a token of this one change; what it returned
-- is kept there for ARGV[1] milliseconds, so that a change whose answer got lost can be asked for again. What
-- is asked for again has a time in ARGV[2], in seconds, after which it might be forgotten that it is done.
local done = redis.call('GET', KEYS[1])
if done then return done end
if ARGV[2] ~= '' and tonumber(redis.call('TIME')[1]) > tonumber(ARGV[2]) then
  return redis.error_reply('LATE the change is asked for again when nobody waits for it any more')
end
local function finish(result)
  redis.call('SET', KEYS[1], result, 'PX', ARGV[1])
  return result
end
-- `..` and `tostring` write large numbers as 1e+14.
local function text(number) return string.format('%.0f', number) end
