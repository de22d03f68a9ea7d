-- Moves the end of one hold of a read-write lock. Never creates a hold and never shortens a lease.
--
-- KEYS  1 K, see rwlock/state.lua
-- ARGV  1 by      last server time in ms at which this may act
--       2 owner   `<client>:<n>`
--       3 lease   ms from now
--       4 ttl     ms, lease + retention of the token
--       5 side    'w' the writer's hold, 'r' a reader's
--       6 id      its token or serial
-- Reply {now, verdict}   renewed, expired, taken, revoked, gone, kind
--       {now, 'late'}    `by` has passed
-- Cost  O(1): TIME, HMGET, PTTL, PEXPIRE, HSET.
--
-- Begins with PEXPIRE, which a full server accepts; the HSET after it is then accepted too. Moves a
-- reader's end in K alone, so that it works while a slot migrates.
local time = call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
if now > ARGV[1] or #ARGV[1] ~= 13 then
  return {now, 'late'}
end
local key, owner, ttl, id = KEYS[1], ARGV[2], ARGV[4], ARGV[6]
local ends = (now + ARGV[3]) .. ''

if ARGV[5] == 'w' then
  local f = call('HMGET', key, 'k', 'o', 't', 'u', 'f')
  if f[1] and f[1] ~= 'rw:1' then
    return {now, 'kind'}
  elseif f[5] == id then
    return {now, 'revoked'}
  elseif f[3] and f[3] > id then
    return {now, 'taken'}
  elseif f[3] ~= id or f[2] ~= owner then
    return {now, 'gone'}
  elseif f[4] <= now then
    return {now, 'expired'}
  end
  prolong(key, ttl)
  if ends > f[4] then
    call('HSET', key, 'u', ends)
  end
  return {now, 'renewed'}
end

local f = call('HMGET', key, 'k', 't', 'c', 'r' .. owner)
local hold = f[4]
if f[1] and f[1] ~= 'rw:1' then
  return {now, 'kind'}
elseif not hold or string.sub(hold, 15, 30) ~= id then
  if f[2] and f[2] > id then
    return {now, 'taken'}
  end
  return {now, f[3] and string.sub(f[3], 1, 16) >= id and 'expired' or 'gone'}
end
local kind = string.sub(hold, 49, 49)
if kind == 'f' or kind == 'R' or kind == 'U' then
  return {now, 'revoked'}
elseif string.sub(hold, 1, 13) <= now then
  return {now, 'expired'}
end
prolong(key, ttl)
if ends > string.sub(hold, 1, 13) then
  call('HSET', key, 'r' .. owner, ends .. string.sub(hold, 14))
end
return {now, 'renewed'}
