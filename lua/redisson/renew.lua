-- uses redisson/shared, core/act_before
-- Makes a hold last longer, see redisson/acquire.lua. This script follows redisson/shared.lua and
-- core/act_before.lua.
--
-- KEYS  1 N
--       2 S
-- ARGV  1 act_before  last server time in ms at which this may act
--       2 owner   `<uuid>:<n>`
--       3 lease   ms from now; a longer lease stays
--       4 ttl     ms, lease + the time for which a release is remembered
--       5 serial  the serial of the hold
-- Reply {now, 'renewed'}
--       {now, 'gone'}   nobody holds the name: the lease has ended, or another program ended the
--                       hold; or S is lost, and N is left as it is
--       {now, 'taken'}  another owner has the name, or another program, or a later hold of this
--                       owner, such as that of a late copy of the acquisition
--       {now, 'revoked'}  this family has ended the hold by force
--       {now, 'late'}   `act_before` has passed
-- Cost  O(1): TIME, HSCAN, HMGET, 2 PTTL, 2 PEXPIRE.
local owner, serial = ARGV[2], ARGV[5]
local who = holder(KEYS[1])
local lister, current, forced = unpack(redis.call('HMGET', KEYS[2], 'o', 't', 'f'))
if forced == serial then
  return {now, 'revoked'}
elseif who ~= owner then
  return {now, who == nil and 'gone' or 'taken'}
elseif lister ~= owner or not current then
  return {now, 'gone'}
elseif current ~= serial then
  return {now, 'taken'}
end
outlive(KEYS[1], ARGV[3])
outlive(KEYS[2], ARGV[4])
return {now, 'renewed'}
