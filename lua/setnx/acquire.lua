-- uses core/attempts, setnx/shared, core/act_before
-- Takes a name in the layout of setnx/shared.lua. This script follows core/attempts.lua,
-- setnx/shared.lua and core/act_before.lua.
--
-- KEYS  1 N       the name, without a prefix
--       2 M       what this family keeps beside it
-- ARGV  1 act_before  last server time in ms at which this may act
--       2 attempt `<client>:<n>`, never used twice
--       3 lease   ms
--       4 ttl     ms, lease + the time for which a release is remembered
--       5 once    '1' for an attempt that ends with a busy answer, else ''
-- Reply {now, 'granted', serial}
--                 also for a copy of an attempt that holds already; the value is
--                 `<attempt>:<serial>`
--       {now, 'busy', ms, holder}
--                 any other value is a holder's; ms = what is left of its lease, '' if that has no
--                 end; holder = its attempt if it is of this family, else ''
--       {now, 'late'}   `act_before` has passed
--       {now, 'void'}   this attempt has ended, or counts as ended
-- Cost  O(1): TIME, GET, HMGET, HSET, SET, PTTL, PEXPIRE; a busy answer TIME, GET, HMGET, PTTL,
--       and with `once` HSET, PTTL, PEXPIRE.
--
-- A value of another type is the server's error WRONGTYPE, before anything is written.
local key, marks, attempt, lease = KEYS[1], KEYS[2], ARGV[2], ARGV[3]
local value = redis.call('GET', key)
local spent_before, last = unpack(redis.call('HMGET', marks, 'v', 't'))
local serial = serial_of(value, attempt)
local spent, refused = spend(spent_before, attempt, ARGV[1], now)
if refused and not serial then
  return {now, 'void'}
end
if value and not serial then
  if ARGV[5] == '1' and type(redis.pcall('HSET', marks, 'k', 'setnx:1', 'v', spent)) == 'number' then
    -- Nobody undoes the attempt. Where the server takes no writes, no copy can act either.
    outlive(marks, ARGV[4])
  end
  local left = redis.call('PTTL', key)
  return {now, 'busy', left >= 0 and left or '', string.match(value, '^(%x+:%d+):%d+$') or ''}
end
if serial then
  outlive(key, lease)
else
  serial = micros
  if last and serial <= last then
    -- The clock was set back.
    serial = string.format('%.0f', last + 1)
  end
  redis.call('HSET', marks, 'k', 'setnx:1', 't', serial, 'v', spent)
  redis.call('SET', key, attempt .. ':' .. serial, 'PX', lease)
end
outlive(marks, ARGV[4])
return {now, 'granted', serial}
