-- uses core/marks, setnx/shared, core/act_before
-- Takes a name in the layout of setnx/shared.lua. This script follows core/marks.lua,
-- setnx/shared.lua and core/act_before.lua.
--
-- KEYS  1 N       the name, without a prefix
--       2 M       what this family keeps beside it
-- ARGV  1 act_before  last server time in ms at which this may act
--       2 attempt `<client>:<n>`, never used twice
--       3 lease   ms
--       4 ttl     ms, lease + the time for which a release is remembered
-- Reply {now, 'granted', serial}
--                 also for a copy of an attempt that holds already; the value is
--                 `<attempt>:<serial>`
--       {now, 'busy', ms, holder}
--                 any other value is a holder's; ms = what is left of its lease, '' if that has no
--                 end; holder = its attempt if it is of this family, else ''
--       {now, 'late'}   `act_before` has passed
--       {now, 'void'}   this attempt was undone
-- Cost  O(1): TIME, GET, HMGET, HSET, SET, PTTL, PEXPIRE; a busy answer TIME, GET, HMGET, PTTL;
--       with void marks HGET more, and those of core/marks.lua.
--
-- A value of another type is the server's error WRONGTYPE, before anything is written.
local key, marks, attempt, lease = KEYS[1], KEYS[2], ARGV[2], ARGV[3]
local value = redis.call('GET', key)
local f = redis.call('HMGET', marks, 'v', 't')
if f[1] and redis.call('HGET', marks, 'v:' .. attempt) then
  return {now, 'void'}
end
local serial = serial_of(value, attempt)
if value and not serial then
  local left = redis.call('PTTL', key)
  return {now, 'busy', left >= 0 and left or '', string.match(value, '^(%x+:%d+):%d+$') or ''}
end
if serial then
  outlive(key, lease)
else
  serial = micros
  if f[2] and serial <= f[2] then
    -- The clock was set back.
    serial = string.format('%.0f', f[2] + 1)
  end
  redis.call('HSET', marks, 'k', 'setnx:1', 't', serial)
  redis.call('SET', key, attempt .. ':' .. serial, 'PX', lease)
end
outlive(marks, ARGV[4])
if f[1] then
  marks_sweep(marks, f[1], now)
end
return {now, 'granted', serial}
