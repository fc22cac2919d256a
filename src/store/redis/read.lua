-- KEYS: state, log. ARGV: the newest id, how many. What the transaction of a read returns.
return {
  redis.call('HMGET', KEYS[1], 'start', 'end', 'system', 'born'),
  redis.call('XREVRANGE', KEYS[2], ARGV[1], '-', 'COUNT', ARGV[2]),
}
