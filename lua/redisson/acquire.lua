-- uses core/attempts, redisson/shared, core/act_before
-- Takes a name in the layout of Redisson's RLock, or enters it again. This script follows
-- core/attempts.lua, redisson/shared.lua and core/act_before.lua.
--
-- KEYS  1 N       the name, without a prefix
--       2 S       what this family keeps beside it
-- ARGV  1 act_before  last server time in ms at which this may act
--       2 owner   `<uuid>:<n>`, as Redisson writes its owners
--       3 attempt `<client>:<n>`, never used twice
--       4 lease   ms; a longer lease of the owner stays
--       5 ttl     ms, lease + the time for which a release is remembered
--       6 once    '1' for an attempt that ends with a busy answer, else ''
-- Reply {now, 'granted', count, serial}
--                 also for a copy of an attempt that holds already; count = the hold count that
--                 Redisson shows
--       {now, 'busy', ms, holder}
--                 ms = what is left of its lease, '' if that has no end
--       {now, 'kind'}   the hash under the name is no RLock
--       {now, 'late'}   `act_before` has passed
--       {now, 'void'}   this attempt has ended, or counts as ended
-- Cost  O(1): TIME, HSCAN, HMGET, 2 HSET, 2 PTTL, 2 PEXPIRE; a busy answer TIME, HSCAN, HMGET,
--       PTTL, and with `once` HSET, PTTL, PEXPIRE.
--
-- A value of another type is the server's error WRONGTYPE, before anything is written.
local key, side = KEYS[1], KEYS[2]
local owner, attempt, lease = ARGV[2], ARGV[3], ARGV[4]
local who, count = holder(key)
if who == false then
  return {now, 'kind'}
end
local lister, last, listed_attempts, spent_before = unpack(redis.call('HMGET', side, 'o', 't', 'h', 'v'))
local listed = who and lister == owner and last and listed_attempts
local has = listed and string.find(listed, ' ' .. attempt .. ' ', 1, true)
local spent, refused = spend(spent_before, attempt, ARGV[1], now)
if refused and not has then
  return {now, 'void'}
end
if who and who ~= owner then
  if ARGV[6] == '1' and type(redis.pcall('HSET', side, 'k', 'redisson:1', 'v', spent)) == 'number' then
    -- Nobody undoes the attempt. Where the server takes no writes, no copy can act either.
    outlive(side, ARGV[5])
  end
  local left = redis.call('PTTL', key)
  return {now, 'busy', left >= 0 and left or '', who}
end

local serial, attempts = micros, ' '
if listed then
  serial, attempts = last, listed
else
  -- A new hold. A count whose attempts are lost is that of a hold which counts as forgotten.
  count = 0
  if last and serial <= last then
    -- The clock was set back.
    serial = string.format('%.0f', last + 1)
  end
end
if not has then
  count = count + 1
  attempts = attempts .. attempt .. ' '
end
redis.call('HSET', key, owner, count)
local lasts = redis.pcall('PTTL', key)
if type(lasts) == 'number' and lasts < lease + 0 then
  lasts = redis.pcall('PEXPIRE', key, lease)
end
if type(lasts) ~= 'number' then
  -- A right is missing. Without an end, the count would stay for good. A copy has added nothing.
  if not has and count == 1 then
    redis.call('HDEL', key, owner)
  elseif not has then
    redis.call('HSET', key, owner, count - 1)
  end
  return lasts
end
redis.call('HSET', side, 'k', 'redisson:1', 'o', owner, 't', serial, 'h', attempts, 'v', spent)
outlive(side, ARGV[5])
return {now, 'granted', count, serial}
