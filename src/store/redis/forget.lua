-- KEYS: token, ids, expiring, then of each conversation state, log, slots, versions, known,
-- media and shown.
-- ARGV: that of the token, the time before which nothing may have been appended or '', ids.
-- Returns how many conversations went, as text. Ids without a conversation go too, uncounted.
local older, forgotten = tonumber(ARGV[2]), 0
for i = 3, #ARGV do
  local state = 7 * i - 17
  local active = tonumber(redis.call('HGET', KEYS[state], 'active'))
  if not active or not older or active < older then
    redis.call('UNLINK', unpack(KEYS, state, state + 6))
    redis.call('ZREM', KEYS[2], ARGV[i])
    redis.call('ZREM', KEYS[3], ARGV[i])
    if active then forgotten = forgotten + 1 end
  end
end
-- A purge that finds nothing promises nothing.
if forgotten == 0 then return older and '0' or again('0') end
return finish(text(forgotten))
