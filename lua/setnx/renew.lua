-- Makes a hold last longer, see setnx/acquire.lua. This script follows core/act_before.lua.
--
-- KEYS  1 N
-- ARGV  1 act_before  last server time in ms at which this may act
--       2 attempt `<client>:<n>`, the one that acquired
--       3 lease   ms from now; a longer lease stays
-- Reply {now, 'renewed'}
--       {now, 'gone'}   the name has no value: the lease has ended, or another program removed it
--       {now, 'taken'}  the name has another value
--       {now, 'late'}   `act_before` has passed
-- Cost  O(1): TIME, GET, PTTL, PEXPIRE.
local key, lease = KEYS[1], ARGV[3]
local value = redis.call('GET', key)
if value ~= ARGV[2] then
  return {now, value and 'taken' or 'gone'}
end
local left = redis.call('PTTL', key)
if left >= 0 and left < lease + 0 then
  redis.call('PEXPIRE', key, lease)
end
return {now, 'renewed'}
