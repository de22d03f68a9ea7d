-- Moves the end of one hold. This part follows a line that sets KIND, and precedes the scripts that
-- renew.

-- Renews the hold of `owner` with this token until `ends`. Never creates a key and never shortens a
-- lease. Confirms a hold that a release has granted. Returns the verdict: renewed, expired, taken,
-- revoked, gone, kind. O(1): HMGET, PEXPIRE, HSET, and HDEL once. Begins with PEXPIRE, which a
-- full server accepts; the HSET after it is then accepted too.
local function renew(key, owner, token, now, ends, ttl)
  -- forced is the token whose renewal is forbidden, unheard a grant by a release that is not
  -- confirmed.
  local kind, holder, current, until_ms, forced, unheard =
    unpack(redis.call('HMGET', key, 'k', 'o', 't', 'u', 'f', 'p'))
  if kind and kind ~= KIND then
    return 'kind'
  elseif forced == token then
    return 'revoked'
  elseif current and current > token then
    return 'taken'
  elseif current ~= token or holder ~= owner then
    return 'gone'
  elseif until_ms <= now then
    return 'expired'
  end
  local later = ends
  if until_ms > ends then
    later = until_ms
  end
  redis.call('PEXPIRE', key, later - ends + ttl)
  redis.call('HSET', key, 'u', later)
  if unheard then
    redis.call('HDEL', key, 'p')
  end
  return 'renewed'
end

