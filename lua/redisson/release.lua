-- uses core/end_attempt, redisson/tell, redisson/shared
-- Ends everything that one attempt has, see redisson/acquire.lua: one count of its owner's hold,
-- and what late copies of its acquisition could do. This script follows core/end_attempt.lua,
-- core/publish.lua, redisson/tell.lua and redisson/shared.lua.
--
-- KEYS  1 N
--       2 S
-- ARGV  1 owner   `<uuid>:<n>`
--       2 attempt `<client>:<n>`
--       3 void    last ms at which a request of the acquisition may act; '' for a hold that was
--                 delivered after an answer to each request
--       4 keep    ms for which this release is remembered
--       5 channel on which Redisson waits
--       6 serial  the serial of the hold, or '' where it is not known
-- Reply {now, verdict, left}, and the error if the server refused a message
--                 left = the hold count that Redisson shows
--       released  this call ended the attempt's hold
--       already   this was the last release of a hold that lasted until then, by an earlier copy
--       revoked   this family had ended the hold by force
--       taken     another owner has the name, or another program
--       gone      the hold is unknown, or nobody holds the name: the lease has ended, or another
--                 program ended the hold. If S is lost, N is left as it is
-- Cost  O(1): TIME, HSCAN, HMGET, HDEL, DEL or HSET, HSET, PTTL, PEXPIRE, PUBLISH, SPUBLISH; with
--       `void` + HDEL, HSET, PTTL, PEXPIRE.
--
-- Needs no `act_before`: an attempt's id is never used again.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
local key, side = KEYS[1], KEYS[2]
local owner, attempt, void, keep, serial = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[6]
local who, count = holder(key)
local lister, listed, released, spent, current, forced =
  unpack(redis.call('HMGET', side, 'o', 'h', 'z', 'v', 't', 'f'))
local own = who == owner
local verdict, left = 'gone', own and count or 0
local freed = false
local from, to
if lister == owner and listed then
  from, to = string.find(listed, ' ' .. attempt .. ' ', 1, true)
end
if from then
  -- A full server accepts this, and then the rest.
  redis.call('HDEL', side, '')
  local rest = string.sub(listed, 1, from) .. string.sub(listed, to + 1)
  if own then
    -- A hold with another serial is that of a late copy.
    verdict, left = (serial == '' or serial == current) and 'released' or 'gone', count - 1
    if left > 0 then
      redis.call('HSET', key, owner, left)
    else
      redis.call('DEL', key)
      freed = true
    end
  else
    verdict = who == nil and 'gone' or 'taken'
  end
  redis.call('HSET', side, 'h', rest)
  if verdict == 'released' then
    redis.call('HSET', side, 'z', attempt)
  end
elseif released == attempt then
  verdict = 'already'
elseif who == false or who and not own then
  verdict = 'taken'
end
if forced and forced == serial and (verdict == 'gone' or verdict == 'taken') then
  verdict = 'revoked'
end
if void ~= '' and void >= now then
  end_attempt(side, spent, 'redisson:1', attempt, void, now)
  outlive(side, void - now + 1000)
end
if from then
  outlive(side, keep)
end
return {now, verdict, left, freed and tell(ARGV[5]) or nil}
