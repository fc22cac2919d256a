-- KEYS: state, log, expiring. ARGV: id. What arrives elsewhere.
return {
  redis.call('DUMP', KEYS[1]),
  redis.call('DUMP', KEYS[2]),
  redis.call('ZSCORE', KEYS[3], ARGV[1]),
  redis.call('HGET', KEYS[1], 'born'),
}
