-- Takes a name in the layout that redis-py, redsync, redislock, node-redlock and rslock share: a
-- string under the name itself, whose value belongs to the holder alone. This script follows
-- core/marks.lua and core/act_before.lua.
--
-- KEYS  1 N       the name, without a prefix
--       2 M       a hash beside it: the marks of undone attempts, see core/marks.lua
-- ARGV  1 act_before  last server time in ms at which this may act
--       2 attempt `<client>:<n>`, never used twice: the value
--       3 lease   ms
-- Reply {now, 'granted', serial}
--                 also for a copy of an attempt that holds already; serial = the time in µs
--       {now, 'busy', ms, holder}
--                 any other value is a holder's; ms = what is left of its lease, '' if that has no
--                 end; holder = its value if it is an attempt, else ''
--       {now, 'late'}   `act_before` has passed
--       {now, 'void'}   this attempt was undone
-- Cost  O(1): TIME, HGET, GET, SET; a busy answer TIME, HGET, GET, PTTL; with void marks HGET more,
--       and those of core/marks.lua.
--
-- A value of another type is the server's error WRONGTYPE, before anything is written.
local key, marks, attempt, lease = KEYS[1], KEYS[2], ARGV[2], ARGV[3]
local value = redis.call('GET', key)
local v = redis.call('HGET', marks, 'v')
if v and redis.call('HGET', marks, 'v:' .. attempt) then
  return {now, 'void'}
end
if value and value ~= attempt then
  local left = redis.call('PTTL', key)
  return {now, 'busy', left >= 0 and left or '', string.match(value, '^%x+:%d+$') or ''}
end
if not value then
  redis.call('SET', key, attempt, 'PX', lease)
elseif redis.call('PTTL', key) < lease + 0 then
  redis.call('PEXPIRE', key, lease)
end
if v then
  marks_sweep(marks, v, now)
end
return {now, 'granted', micros}
