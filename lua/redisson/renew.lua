-- Makes a hold last longer, see redisson/acquire.lua. This script follows redisson/shared.lua and
-- core/act_before.lua.
--
-- KEYS  1 N
--       2 S
-- ARGV  1 act_before  last server time in ms at which this may act
--       2 owner   `<uuid>:<n>`
--       3 lease   ms from now; a longer lease stays
--       4 ttl     ms, lease + the time for which a release is remembered
-- Reply {now, 'renewed'}
--       {now, 'gone'}   nobody holds the name: the lease has ended, or the hold was ended by force
--       {now, 'taken'}  another owner has the name, or another program
--       {now, 'late'}   `act_before` has passed
-- Cost  O(1): TIME, HSCAN, 2 PTTL, 2 PEXPIRE.
local who = holder(KEYS[1])
if who ~= ARGV[2] then
  return {now, who == nil and 'gone' or 'taken'}
end
outlive(KEYS[1], ARGV[3])
outlive(KEYS[2], ARGV[4])
return {now, 'renewed'}
