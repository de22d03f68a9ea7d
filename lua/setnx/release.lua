-- uses core/end_attempt, core/publish, setnx/shared
-- Ends everything that one attempt has, see setnx/acquire.lua: its hold, and what late copies of
-- its acquisition have done or could do. This script follows core/end_attempt.lua,
-- core/publish.lua and setnx/shared.lua.
--
-- KEYS  1 N
--       2 M
-- ARGV  1 attempt `<client>:<n>`
--       2 serial  the serial of its hold, or '' where it is not known
--       3 void    last ms at which a request of the acquisition may act; '' for a hold that was
--                 delivered after an answer to each request
--       4 keep    ms for which this release is remembered
--       5 channel on which clients of this family are told that the name is free
-- Reply {now, verdict, 0}, and the error if the server refused the message
--       released  this call ended the hold
--       already   an earlier copy of this call did, and no other hold was released since
--       taken     the name has another value
--       gone      the name had no value or that of a late copy: the lease has ended, another
--                 program removed the value, or an earlier copy of this call did
-- Cost  O(1): TIME, GET, DEL, HMGET, HSET, PTTL, PEXPIRE, PUBLISH; with `void` + HDEL, HSET, PTTL,
--       PEXPIRE.
--
-- Needs no `act_before`: an attempt's id is never used again. Begins with DEL, which a full server
-- accepts, and then the rest.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
local key, marks, attempt, serial, void = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]
local value = redis.call('GET', key)
local own = serial_of(value, attempt)
local verdict = value and not own and 'taken' or 'gone'
if own then
  -- Before M is read, whose key another program may have.
  redis.call('DEL', key)
end
local spent, released = unpack(redis.call('HMGET', marks, 'v', 'z'))
if own then
  if serial == '' or serial == own then
    verdict = 'released'
    redis.call('HSET', marks, 'k', 'setnx:1', 'z', attempt)
    outlive(marks, ARGV[4])
  end
elseif released == attempt then
  verdict = 'already'
end
if void ~= '' and void >= now then
  end_attempt(marks, spent, 'setnx:1', attempt, void, now)
  outlive(marks, void - now + 1000)
end
return {now, verdict, 0, own and publish('PUBLISH', ARGV[5], '0') or nil}
