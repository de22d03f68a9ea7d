-- uses core/remember, core/act_before
-- What a fence is on the server, and the beginning of every script that changes fenced data. This
-- part follows core/remember.lua and core/act_before.lua, directly before such a script.
--
-- D  the data, a key of any kind that others read as they like
-- M  hash
--    k kind
--    t the mark: the highest token that has written
-- O  sorted set, see core/remember.lua
--
-- KEYS  1 D, 2 M, 3 O, all in one slot
-- ARGV  1 act_before  last server time in ms at which this may act
--       2 op      `<client>:<n>`, never used twice
--       3 token   of the writer, below 2^53
--       4 keep    ms an operation is remembered; the same for all
--       5 life    ms for which the mark is kept without a write, or '' for ever
-- Reply {now, 'fenced', mark}  the mark is higher than the token; nothing is changed
--       {now, 'already'}       an earlier copy of this operation has written
--       {now, 'late'}          `act_before` has passed
--       {now, 'kind', kind}    the key of the mark has other content
-- Cost  O(log n) of n operations remembered: TIME, HMGET, ZSCORE × 2, HSET, PEXPIRE or PERSIST,
--       PEXPIRE, ZADD; with old operations + ZRANGEBYSCORE, ZREM of 32 at most.
--
-- The mark advances together with the write and never falls. A script remembers its operation after
-- the command for D. If the server stops it there, for the type of D or for a missing right, then
-- nothing is remembered, and a copy fails as well. A refusal is remembered: after a reset, a late
-- copy must not write what its caller was told is refused. Begins with HSET, which a full server
-- refuses; a refusal begins with PEXPIRE, which it accepts.
local call = redis.call
local mark_key, ops, op, token, keep = KEYS[2], KEYS[3], ARGV[2], ARGV[3], ARGV[4]
local mark = call('HMGET', mark_key, 'k', 't')
if mark[1] ~= 'fence:1' and mark[1] then
  return {now, 'kind', mark[1]}
elseif call('ZSCORE', ops, op) then
  return {now, 'already'}
elseif call('ZSCORE', ops, op .. '!') then
  return {now, 'fenced', mark[2] or token}
elseif mark[2] and mark[2] + 0 > token + 0 then
  remember(ops, op .. '!', micros, keep, micros)
  return {now, 'fenced', mark[2]}
end
call('HSET', mark_key, 'k', 'fence:1', 't', token)
if ARGV[5] ~= '' then
  call('PEXPIRE', mark_key, ARGV[5])
else
  call('PERSIST', mark_key)
end

