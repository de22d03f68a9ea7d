-- Moves the end of m holds of one owner, each by itself. Never creates a key and never shortens a
-- lease. This script follows a line that sets KIND.
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
--
-- Begins with PEXPIRE, which a full server accepts; the HSET after it is then accepted too.
local call = redis.call
local time = call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
if now > ARGV[1] or #ARGV[1] ~= 13 then
  return {now, 'late'}
end

local owner, lease, ttl = ARGV[2], ARGV[3], ARGV[4]
local ends = (now + lease) .. ''
local reply = {now, 'gone'}
for i = 1, #KEYS do
  local key, token = KEYS[i], ARGV[4 + i]
  -- k kind, o owner, t token, u until, f token whose renewal is forbidden
  local f = call('HMGET', key, 'k', 'o', 't', 'u', 'f')
  local verdict = 'gone'
  if f[1] and f[1] ~= KIND then
    verdict = 'kind'
  elseif f[5] == token then
    verdict = 'revoked'
  elseif f[3] and f[3] > token then
    verdict = 'taken'
  elseif f[3] == token and f[2] == owner then
    verdict = 'expired'
    if f[4] > now then
      verdict = 'renewed'
      local later = ends
      if f[4] > ends then
        later = f[4]
      end
      call('PEXPIRE', key, later - ends + ttl)
      call('HSET', key, 'u', later)
    end
  end
  reply[1 + i] = verdict
end
return reply
