-- uses $kind/exclusive, $like/wake, core/look_again
-- Ends the hold with this token, at once or by forbidding its renewal. This script follows the
-- wake.lua of its kind, which has `wake`.
--
-- KEYS  1 K, then the indexes of its waiters (optional; without them nobody is notified)
-- ARGV  1 token   token of the hold; a later hold is not touched
--       2 how     'now' frees the name; 'after' lets the lease run out
--       3 keep    ms the token is kept after the name is free
--       4 channels  the beginning of the channel of each client, see core/look_again.lua
-- Reply {now, 'done'}      the hold is ended, or will end with its lease; after a notification as a
--                          text, with the kind's report on waiters
--       {now, 'already'}   it was forced before
--       {now, 'gone'}      no live hold has this token
--       {now, 'kind', kind}
-- Cost  O(1): TIME, HMGET, HDEL, HSET, PEXPIRE, PUBLISH; with waiters the cost of a notification,
--       see the kind.
--
-- Begins with HDEL, which a full server accepts.
local time = redis.call('TIME')
local micros = time[1] .. string.sub('00000' .. time[2], -6)
local now = string.sub(micros, 1, 13)
local key, token = KEYS[1], ARGV[1]
local kind, owner, current, ends, forced, waiters, called =
  unpack(redis.call('HMGET', key, 'k', 'o', 't', 'u', 'f', 'n', 'y'))
if kind and kind ~= KIND then
  return {now, 'kind', kind}
end
local live = owner and ends > now and current == token
if not live then
  return {now, forced == token and 'already' or 'gone'}
end
if ARGV[2] == 'after' then
  redis.call('HDEL', key, 'f')
  redis.call('HSET', key, 'f', token)
  look_again(ARGV[4], owner, key)
  return {now, 'done'}
end

-- The hold is over, by the clock of any server. Its owner field stays, so that its release and the
-- next holder learn how it ended.
redis.call('HDEL', key, '')
redis.call('HSET', key, 'u', '0000000000000', 'f', token)
look_again(ARGV[4], owner, key)
local life = ARGV[3]
if waiters and waiters - now > life + 0 then
  life = waiters - now
end
redis.call('PEXPIRE', key, life)
if waiters and KEYS[2] then
  local before = {now = now, micros = micros, token = token, clean = false, abandoned = 1, called = called}
  local told = wake(1, now, before)
  return now .. ' done' .. (told or '')
end
return {now, 'done'}
