-- Goes before each script that changes something. KEYS[1] is a token of this one change; what it returned
-- is kept there for ARGV[1] milliseconds, so that a change whose answer got lost can be asked for again.
local done = redis.call('GET', KEYS[1])
local function finish(result)
  redis.call('SET', KEYS[1], result, 'PX', ARGV[1])
  return result
end
-- Returns what was done before, or that there is nothing to do, which replicas have to know as well: a server of 7.2
-- and later lets WAIT wait for nothing after a script that wrote nothing. What takes away comes first: behind
-- it nothing is refused for want of memory.
local function again(result)
  redis.call('UNLINK', KEYS[1])
  return finish(result)
end
if done then return again(done) end
-- `..` and `tostring` write large numbers as 1e+14.
local function text(number) return string.format('%.0f', number) end
