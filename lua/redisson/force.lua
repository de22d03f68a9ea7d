-- uses core/remember, redisson/tell, redisson/shared, core/act_before
-- Ends the hold of one owner by force, as Redisson's forceUnlock does. This script follows
-- core/remember.lua, core/publish.lua, redisson/tell.lua, redisson/shared.lua and
-- core/act_before.lua.
--
-- KEYS  1 N
--       2 S
--       3 O       the operations that have run; see core/remember.lua
-- ARGV  1 act_before  last server time in ms at which this may act
--       2 op      `<client>:<n>`, never used twice
--       3 owner   `<uuid>:<n>` or `<uuid>:<thread>`; the hold of another owner is not touched
--       4 serial  the serial of its hold if it is of this family, else ''; a later one is not
--                 touched
--       5 keep    ms an operation is remembered; the same for all
--       6 channel on which Redisson waits
-- Reply {now, 'done'}, and the error if the server refused a message
--                       the name is free; this op, or an earlier copy of it, has ended the hold
--       {now, 'gone'}   this owner does not hold the name, or no longer
--       {now, 'kind'}   the hash under the name is no RLock
--       {now, 'late'}   `act_before` has passed
-- Cost  O(log n) of n operations remembered: TIME, 2 ZSCORE, HSCAN, HMGET, PEXPIRE, ZADD, DEL,
--       HSET, PUBLISH, SPUBLISH; with old operations + ZRANGEBYSCORE, ZREM of 32 at most.
--
-- A refusal is remembered too: a late copy must not end a hold after its caller was told that there
-- is none. Begins with PEXPIRE, which a full server accepts, and then the rest.
local key, side, ops = KEYS[1], KEYS[2], KEYS[3]
local op, owner, serial, keep = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
if redis.call('ZSCORE', ops, op) then
  return {now, 'done'}
elseif redis.call('ZSCORE', ops, op .. '!') then
  return {now, 'gone'}
end
local who = holder(key)
if who == false then
  return {now, 'kind'}
end
local lister, current = unpack(redis.call('HMGET', side, 'o', 't'))
if who ~= owner or (lister == owner and current or '') ~= serial then
  remember(ops, op .. '!', micros, keep, micros)
  return {now, 'gone'}
end
remember(ops, op, micros, keep, micros)
redis.call('DEL', key)
if serial ~= '' then
  redis.call('HSET', side, 'f', serial)
end
return {now, 'done', tell(ARGV[6])}
