-- uses setnx/shared, core/act_before
-- Makes a hold last longer, see setnx/acquire.lua. This script follows setnx/shared.lua and
-- core/act_before.lua.
--
-- KEYS  1 N
--       2 M
-- ARGV  1 act_before  last server time in ms at which this may act
--       2 attempt `<client>:<n>`, the one that acquired
--       3 serial  the serial of its hold
--       4 lease   ms from now; a longer lease stays
--       5 ttl     ms, lease + the time for which a release is remembered
-- Reply {now, 'renewed'}
--       {now, 'gone'}   the name has no value: the lease has ended, or another program removed it
--       {now, 'taken'}  the name has another value, such as that of a late copy of the acquisition
--       {now, 'late'}   `act_before` has passed
-- Cost  O(1): TIME, GET, 2 PTTL, 2 PEXPIRE.
local key, lease = KEYS[1], ARGV[4]
local value = redis.call('GET', key)
if not value or serial_of(value, ARGV[2]) ~= ARGV[3] then
  return {now, value and 'taken' or 'gone'}
end
local left = redis.call('PTTL', key)
if left >= 0 and left < lease + 0 then
  redis.call('PEXPIRE', key, lease)
end
outlive(KEYS[2], ARGV[5])
return {now, 'renewed'}
