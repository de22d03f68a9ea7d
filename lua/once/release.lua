-- uses core/end_attempt, once/shared
-- Ends everything that one attempt has: its claim, with the outcome of the run, and its late
-- copies. Release and undo of an abandoned claim are the same operation. This script follows
-- core/end_attempt.lua and once/shared.lua.
--
-- KEYS  1 K; see once/shared.lua
-- ARGV  1 owner   `<client>:<n>`
--       2 attempt `<client>:<n>`
--       3 void    last ms at which a request of the claim may act; '' for a claim that was
--                 delivered after an answer to each request
--       4 ttl     ms for which a key with a record lives at least
--       5 keep    ms for which a key without one lives at least
--       6 token   of the claim, or '' where it is not known
--       7 outcome done, failed, overran, dropped, lost; or '' for a run that never began
--       8 why     it failed, or ''
--       9 memory  ms for which a keyed slot is remembered, or ''
-- Reply {now, verdict}
--       released  this call ended the claim and recorded the outcome
--       expired   the same, but the lease had already ended
--       already   this outcome is on record
--       taken     a later claim has been made
--       gone      the claim is unknown, or another outcome is on record
--       kind      the name is of another kind
-- Cost  O(open slots, at most 64): TIME, HMGET, HDEL × 3, HSET × 2, PTTL; a keyed slot HSET, and
--       HGET, HSET if it was forgotten; with `void` + HGET, HDEL, HSET.
--
-- Needs no `act_before`: an attempt's id is never used again. Begins with HDEL, which a full server
-- accepts.
local time = call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
local key, attempt, void, token, outcome = KEYS[1], ARGV[2], ARGV[3], ARGV[6], ARGV[7]
local kind, holder, claimed, last, until_ms, slot, attempts, begun, runner, open, recorded =
  unpack(call('HMGET', key, 'k', 'o', 'h', 't', 'u', 's', 'c', 'b', 'i', 'p', 'x'))
if kind ~= KIND and kind then
  return {now, 'kind'}
end

local verdict = 'gone'
if holder and holder == ARGV[1] and claimed == attempt then
  verdict = until_ms > now and 'released' or 'expired'
  call('HDEL', key, 'o', 'h', 'u', 's', 'c', 'b', 'i')
  if outcome == '' then
    -- Nothing has begun: the attempt does not count.
    if not is_keyed(slot) then
      put_open(key, (with_attempts(open, slot, attempts - 1)))
    elseif attempts == '1' then
      keyed_drop(key, slot)
    else
      keyed_put(key, slot, 'lost ' .. attempts - 1 .. ' ' .. last .. ' ' .. begun .. ' ' .. now .. ' ' .. runner .. ' ' .. slot, (now + ARGV[9]) .. '')
    end
  else
    local record = outcome .. ' ' .. attempts .. ' ' .. last .. ' ' .. begun .. ' ' .. now .. ' ' .. runner .. ' ' .. slot
    call('HSET', key, 'l', record, 'x', last .. ' ' .. outcome)
    if ARGV[8] == '' then
      call('HDEL', key, 'e')
    else
      call('HSET', key, 'e', ARGV[8])
    end
    if is_keyed(slot) then
      keyed_put(key, slot, record, (now + ARGV[9]) .. '')
    elseif outcome == 'done' then
      call('HSET', key, 'w', record)
      put_open(key, open_after(open, slot))
    end
  end
  live(key, ARGV[4])
elseif token ~= '' and recorded == token .. ' ' .. outcome then
  verdict = 'already'
elseif token ~= '' and last and token < last then
  verdict = 'taken'
end
if void ~= '' and void >= now then
  -- Copies of this attempt must not act any more.
  end_attempt(key, call('HGET', key, 'v'), KIND, attempt, void, now)
  live(key, ARGV[5])
end
return {now, verdict}
