-- uses core/remember, core/act_before
-- Removes the mark. This script follows core/remember.lua and core/act_before.lua.
--
-- KEYS  1 D, 2 M, 3 O; see fence/shared.lua
-- ARGV  1 act_before  last server time in ms at which this may act
--       2 op      `<client>:<n>`, never used twice
--       3 keep    ms an operation is remembered; the same for all
-- Reply {now, 'reset', mark}  this op removed the mark; '' if there was none
--       {now, 'already'}      an earlier copy of this operation has removed it
--       {now, 'late'}         `act_before` has passed
--       {now, 'kind', kind}   the key of the mark has other content
-- Cost  O(log n) of n operations remembered: TIME, HMGET, ZSCORE, PEXPIRE, ZADD, DEL; with old
--       operations + ZRANGEBYSCORE, ZREM of 32 at most.
--
-- Begins with PEXPIRE, which a full server accepts, and then the rest.
local mark_key, ops, op = KEYS[2], KEYS[3], ARGV[2]
local mark = redis.call('HMGET', mark_key, 'k', 't')
if mark[1] ~= 'fence:1' and mark[1] then
  return {now, 'kind', mark[1]}
elseif redis.call('ZSCORE', ops, op) then
  return {now, 'already'}
end
remember(ops, op, micros, ARGV[3], micros)
redis.call('DEL', mark_key)
return {now, 'reset', mark[2] or ''}
