-- Moves the end of one hold of a read-write lock. This part precedes the scripts that renew.

-- Prolongs the TTL of a key to at least `ttl` ms.
local function renewal_prolong(key, ttl)
  local left = redis.call('PTTL', key)
  redis.call('PEXPIRE', key, math.max(left, ttl))
end

-- Renews the hold of `owner` with this token or serial until `ends`; `side` is 'w' for a writer's
-- hold, 'r' for a reader's. Never creates a hold and never shortens a lease. Returns the verdict:
-- renewed, expired, taken, revoked, gone, kind. Confirms a write that a release has given. O(1):
-- HMGET, PTTL, PEXPIRE, HSET, and HDEL once.
--
-- Begins with PEXPIRE, which a full server accepts; the HSET after it is then accepted too. Moves a
-- reader's end in K alone, so that it works while a slot migrates.
local function renew(key, owner, side, id, now, ends, ttl)
  if side == 'w' then
    local kind, writer, token, until_ms, forced, unheard =
      unpack(redis.call('HMGET', key, 'k', 'o', 't', 'u', 'f', 'p'))
    if kind and kind ~= 'rw:1' then
      return 'kind'
    elseif forced == id then
      return 'revoked'
    elseif token and token > id then
      return 'taken'
    elseif token ~= id or writer ~= owner then
      return 'gone'
    elseif until_ms <= now then
      return 'expired'
    end
    renewal_prolong(key, ttl)
    if ends > until_ms then
      redis.call('HSET', key, 'u', ends)
    end
    if unheard then
      redis.call('HDEL', key, 'p')
    end
    return 'renewed'
  end

  local stored, token, counter, hold = unpack(redis.call('HMGET', key, 'k', 't', 'c', 'r' .. owner))
  if stored and stored ~= 'rw:1' then
    return 'kind'
  elseif not hold or string.sub(hold, 15, 30) ~= id then
    if token and token > id then
      return 'taken'
    end
    return counter and string.sub(counter, 1, 16) >= id and 'expired' or 'gone'
  end
  local kind = string.sub(hold, 49, 49)
  if kind == 'f' or kind == 'R' or kind == 'U' then
    return 'revoked'
  elseif string.sub(hold, 1, 13) <= now then
    return 'expired'
  end
  renewal_prolong(key, ttl)
  if ends > string.sub(hold, 1, 13) then
    redis.call('HSET', key, 'r' .. owner, ends .. string.sub(hold, 14))
  end
  return 'renewed'
end

