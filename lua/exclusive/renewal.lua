-- Moves the end of one hold. This part follows a line that sets KIND, and precedes the scripts that
-- renew.

-- Renews the hold of `owner` with this token until `ends`. Never creates a key and never shortens a
-- lease. Confirms a hold that a release has granted. Returns the verdict: renewed, expired, taken,
-- revoked, gone, kind. O(1): HMGET, PEXPIRE, HSET, and HDEL once. Begins with PEXPIRE, which a
-- full server accepts; the HSET after it is then accepted too.
local function renew(key, owner, token, now, ends, ttl)
  -- k kind, o owner, t token, u until, f token whose renewal is forbidden, p grant by a release
  -- that is not confirmed
  local f = redis.call('HMGET', key, 'k', 'o', 't', 'u', 'f', 'p')
  if f[1] and f[1] ~= KIND then
    return 'kind'
  elseif f[5] == token then
    return 'revoked'
  elseif f[3] and f[3] > token then
    return 'taken'
  elseif f[3] ~= token or f[2] ~= owner then
    return 'gone'
  elseif f[4] <= now then
    return 'expired'
  end
  local later = ends
  if f[4] > ends then
    later = f[4]
  end
  redis.call('PEXPIRE', key, later - ends + ttl)
  redis.call('HSET', key, 'u', later)
  if f[6] then
    redis.call('HDEL', key, 'p')
  end
  return 'renewed'
end

