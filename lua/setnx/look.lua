-- Shows the value of a name, see setnx/acquire.lua. Writes nothing.
--
-- KEYS  1 N
-- Reply {now, 'free'}
--       {now, 'held', ms, value}  ms = what is left of the lease, '' if that has no end
-- Cost  O(1): TIME, GET, PTTL.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
local value = redis.call('GET', KEYS[1])
if not value then
  return {now, 'free'}
end
local left = redis.call('PTTL', KEYS[1])
return {now, 'held', left >= 0 and left or '', value}
