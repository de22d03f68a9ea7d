-- Ends the hold of one owner by force, as Redisson's forceUnlock does. This script follows
-- core/publish.lua and redisson/shared.lua.
--
-- KEYS  1 N
-- ARGV  1 owner   `<uuid>:<n>` or `<uuid>:<thread>`; the hold of another owner is not touched
--       2 channel on which Redisson waits
-- Reply {now, 'done'}   the name is free
--       {now, 'gone'}   this owner does not hold the name
--       {now, 'kind'}   the hash under the name is no RLock
-- Cost  O(1): TIME, HSCAN, DEL, PUBLISH, SPUBLISH.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
local who = holder(KEYS[1])
if who ~= ARGV[1] then
  return {now, who == false and 'kind' or 'gone'}
end
redis.call('DEL', KEYS[1])
publish('PUBLISH', ARGV[2], '0')
publish('SPUBLISH', ARGV[2], '0')
return {now, 'done'}
