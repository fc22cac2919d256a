-- Goes before each script that changes something. KEYS[1] is a token of this one change; what it returned
-- is kept there for ARGV[1] milliseconds, so that a change whose answer got lost can be asked for again.
local done = redis.call('GET', KEYS[1])
if done then return done end
local function finish(result)
  redis.call('SET', KEYS[1], result, 'PX', ARGV[1])
  return result
end
-- `..` and `tostring` write large numbers as 1e+14.
local function text(number) return string.format('%.0f', number) end
