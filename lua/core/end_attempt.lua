-- uses core/attempts
-- The end of an attempt that is released or undone. This part follows core/attempts.lua, and does
-- nothing by itself.

-- Records an attempt whose requests could act until `limit`. `v` is that field; `kind` becomes
-- field k. Returns the new field v. O(clients). Begins with HDEL, which a full server accepts. The
-- caller sets the key's TTL.
local function end_attempt(key, v, kind, attempt, limit, now)
  redis.call('HDEL', key, '')
  v = spend(v, attempt, limit, now)
  redis.call('HSET', key, 'k', kind, 'v', v)
  return v
end

