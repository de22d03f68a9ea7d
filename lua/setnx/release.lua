-- Ends everything that one attempt has, see setnx/acquire.lua: its hold, and what late copies of
-- its acquisition could do. This script follows core/marks.lua and core/publish.lua.
--
-- KEYS  1 N
--       2 M       the marks
-- ARGV  1 attempt `<client>:<n>`
--       2 void    last ms at which a copy of the acquisition may act, or '' without copies
--       3 channel on which clients of this family are told that the name is free
-- Reply {now, verdict, 0}
--       released  this call ended the hold
--       taken     the name has another value
--       gone      the name has no value: the lease has ended, another program removed it, or an
--                 earlier copy of this call did
-- Cost  O(1): TIME, GET, DEL, PUBLISH; with copies on the way HGET, PTTL, PEXPIRE more, and those
--       of core/marks.lua.
--
-- Needs no `act_before`: an attempt's id is never used again.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
local key, marks, attempt, void = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local value = redis.call('GET', key)
local verdict = value and 'taken' or 'gone'
if value == attempt then
  redis.call('DEL', key)
  verdict = 'released'
end
if void ~= '' and void >= now then
  marks_add(marks, redis.call('HGET', marks, 'v'), 'setnx:1', attempt, void, now)
  local life = void - now + 2 * MARKS_SPAN
  if redis.call('PTTL', marks) < life then
    redis.call('PEXPIRE', marks, life)
  end
end
if verdict == 'released' then
  publish('PUBLISH', ARGV[3], '0')
end
return {now, verdict, 0}
