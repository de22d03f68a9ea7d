local function body(KEYS, ARGV)
  return redis.call('GET', KEYS[1])
end
