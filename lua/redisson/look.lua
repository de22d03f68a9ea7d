-- uses redisson/shared
-- Shows the holder of a name in the layout of Redisson's RLock. Writes nothing. This script follows
-- redisson/shared.lua.
--
-- KEYS  1 N
--       2 S
-- Reply {now, 'free'}
--       {now, 'kind'}   the hash under the name is no RLock
--       {now, 'held', owner, count, ms, serial}
--                 ms = what is left of the lease, '' if that has no end; serial = '' unless a
--                 client of this family holds it
-- Cost  O(1): TIME, HSCAN, HMGET, PTTL.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
local who, count = holder(KEYS[1])
if not who then
  return {now, who == false and 'kind' or 'free'}
end
local lister, current = unpack(redis.call('HMGET', KEYS[2], 'o', 't'))
local left = redis.call('PTTL', KEYS[1])
return {now, 'held', who, count, left >= 0 and left or '', lister == who and current or ''}
