local KIND = 'lock:1'
local PARTS = 2
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

-- Moves the end of m holds of one owner, each by itself. This script follows exclusive/renewal.lua.
--
-- KEYS  1..m      K of each name
-- ARGV  1 by      last server time in ms at which this may act
--       2 owner   `<client>:<n>`
--       3 lease   ms from now
--       4 ttl     ms, lease + retention of the token
--       5..4+m    token of each hold
-- Reply {now, verdict, …}  one item per name: renewed, expired, taken, revoked, gone, kind
--       {now, 'late'}      `by` has passed
-- Cost  O(m): TIME, and per name HMGET, PEXPIRE, HSET.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
if now > ARGV[1] or #ARGV[1] ~= 13 then
  return {now, 'late'}
end

local owner, lease, ttl = ARGV[2], ARGV[3], ARGV[4]
local ends = (now + lease) .. ''
local reply = {now, 'gone'}
for i = 1, #KEYS do
  reply[1 + i] = renew(KEYS[i], owner, ARGV[4 + i], now, ends, ttl)
end
return reply
