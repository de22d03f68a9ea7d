-- Ends everything that one attempt has, see redisson/acquire.lua: one count of its owner's hold,
-- and what late copies of its acquisition could do. This script follows core/marks.lua,
-- core/publish.lua and redisson/shared.lua.
--
-- KEYS  1 N
--       2 S
-- ARGV  1 owner   `<uuid>:<n>`
--       2 attempt `<client>:<n>`
--       3 void    last ms at which a copy of the acquisition may act, or '' without copies
--       4 keep    ms for which this release is remembered
--       5 channel on which Redisson waits
-- Reply {now, verdict, left}
--                 left = the hold count that Redisson shows
--       released  this call ended the attempt's hold
--       expired   the same, but nobody held the name any more
--       already   this was the last release of a hold that lasted until then, by an earlier copy
--       taken     another owner has the name, or another program
--       gone      the attempt is unknown
-- Cost  O(1): TIME, HSCAN, HMGET, HDEL, DEL or HSET, HSET, PTTL, PEXPIRE, PUBLISH, SPUBLISH; with
--       copies on the way those of core/marks.lua.
--
-- Needs no `act_before`: an attempt's id is never used again. Redisson waits for a message of
-- PUBLISH or of SPUBLISH, by its mode, and never for both.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
local key, side = KEYS[1], KEYS[2]
local owner, attempt, void, keep = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local who, count = holder(key)
local f = redis.call('HMGET', side, 'o', 'h', 'z', 'v')
local own = who == owner
local verdict, left = 'gone', own and count or 0
local freed = false
local from, to
if f[1] == owner and f[2] then
  from, to = string.find(f[2], ' ' .. attempt .. ' ', 1, true)
end
if from then
  -- A full server accepts this, and then the rest.
  redis.call('HDEL', side, '')
  local rest = string.sub(f[2], 1, from) .. string.sub(f[2], to + 1)
  if own then
    verdict, left = 'released', count - 1
    if left > 0 then
      redis.call('HSET', key, owner, left)
    else
      redis.call('DEL', key)
      freed = true
    end
  else
    verdict = who == nil and 'expired' or 'taken'
  end
  redis.call('HSET', side, 'h', rest)
  if own then
    redis.call('HSET', side, 'z', attempt)
  end
elseif f[3] == attempt then
  verdict = 'already'
elseif who == false or who and not own then
  verdict = 'taken'
end
if void ~= '' and void >= now then
  marks_add(side, f[4], 'redisson:1', attempt, void, now)
  outlive(side, void - now + 2 * MARKS_SPAN)
end
if from then
  outlive(side, keep)
end
if freed then
  publish('PUBLISH', ARGV[5], '0')
  publish('SPUBLISH', ARGV[5], '0')
end
return {now, verdict, left}
