-- uses once/shared, core/act_before
-- Moves the end of a claim. This script follows once/shared.lua and core/act_before.lua.
--
-- KEYS  1 K; see once/shared.lua
-- ARGV  1 act_before  last server time in ms at which this may act
--       2 owner   `<client>:<n>`
--       3 lease   ms from now
--       4 ttl     ms for which the key lives at least
--       5 token   of the claim
--       6 keep    ms for which a keyed slot is remembered after its run, or ''
-- Reply {now, verdict}      renewed, expired, taken, gone, kind
--       {now, 'late'}       `act_before` has passed
-- Cost  O(1): TIME, HMGET, HDEL, HSET, PTTL; a keyed slot + HGET, HSET.
--
-- Never creates a key and never shortens a lease. Begins with HDEL, which a full server accepts.
local key, token = KEYS[1], ARGV[5]
local kind, holder, last, until_ms, slot = unpack(call('HMGET', key, 'k', 'o', 't', 'u', 's'))
if kind and kind ~= KIND then
  return {now, 'kind'}
elseif last and last > token then
  return {now, 'taken'}
elseif last ~= token or holder ~= ARGV[2] then
  return {now, 'gone'}
elseif until_ms <= now then
  return {now, 'expired'}
end
local ends = (now + ARGV[3]) .. ''
call('HDEL', key, '')
if ends > until_ms then
  call('HSET', key, 'u', ends)
  -- A reset may have removed the record.
  local record = is_keyed(slot) and string.match(call('HGET', key, 'd:' .. slot) or '', ' (.*)$')
  if record then
    call('HSET', key, 'd:' .. slot, ends + ARGV[6] .. ' ' .. record)
  end
end
live(key, ARGV[4])
return {now, 'renewed'}
