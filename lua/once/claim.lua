-- uses core/attempts, once/shared, core/act_before
-- Claims a slot of a job for one run. This script follows core/attempts.lua, once/shared.lua and
-- core/act_before.lua.
--
-- KEYS  1 K; see once/shared.lua
-- ARGV  1 act_before  last server time in ms at which this may act
--       2 owner   the new holder, `<client>:<n>`
--       3 attempt `<client>:<n>`, never used twice
--       4 lease   ms
--       5 ttl     ms for which the key lives at least
--       6 slot    ms at which it starts, or `=<key>`
--       7 seen    `<t> <1 if there was a claim, else 0>`, the state on which the caller decided
--       8 from    ms before which the slot has not begun, or ''
--       9 before  ms from which on another slot is the present one, or ''
--       10 limit  the attempts that the slot may have
--       11 who    the process that will run it, one word
--       12 keep   ms for which a keyed slot is remembered after its run, or ''
-- Reply {now, 'granted', attempts, token, abandoned}
--                abandoned = 1 if the run before it lost its claim
--       {now, 'busy', remaining ms, owner}  another run is under way
--       {now, 'moved'}          the state is not what the caller saw: look again
--       {now, 'full'}           the job remembers as many keyed slots as it may
--       {now, 'late'}           `act_before` has passed
--       {now, 'void'}           this attempt was undone, or a later one of its client
--       {now, 'kind', kind}     the name is of another kind
-- Cost  O(open slots, at most 64): TIME, HMGET × 2, HSET × 2, PTTL, PEXPIRE, HGET; a keyed slot
--       without the second HMGET, and a new one + HGET × 2, HSET; at times + HGETALL, HDEL, HSET,
--       O(remembered slots, at most 1,000). Another answer than granted: HMGET × 2, HGET; `full`
--       HMGET, HGET × 2, HGETALL.
--
-- Begins with HSET, which a full server refuses.
local key, owner, attempt, lease, ttl = KEYS[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local slot, from, before, limit, keep = ARGV[6], ARGV[8], ARGV[9], ARGV[10] + 0, ARGV[12]
local kind, holder, claimed, last, until_ms, spent, count, ended, present, begun, runner =
  unpack(call('HMGET', key, 'k', 'o', 'h', 't', 'u', 'v', 'c', 'l', 's', 'b', 'i'))
if kind ~= KIND and kind then
  return {now, 'kind', kind}
end
if holder and until_ms > now then
  if holder ~= owner or claimed ~= attempt then
    return {now, 'busy', until_ms - now, holder}
  end
  return {now, 'granted', count, last, string.sub(ended or '', 1, 5) == 'lost ' and 1 or 0}
end
local _, refused = spend(spent, attempt, ARGV[1], now)
if refused then
  return {now, 'void'}
end
-- This refuses copies of a claim that was granted.
if ARGV[7] ~= (last or '') .. ' ' .. (holder and '1' or '0') or from > now or before ~= '' and before <= now then
  return {now, 'moved'}
end

local attempts, open, out, over, left, y
if is_keyed(slot) then
  local ends, record = string.match(call('HGET', key, 'd:' .. slot) or '', '^(%d+) (.*)$')
  if ends and ends > now then
    if string.sub(record, 1, 5) == 'done ' then
      return {now, 'moved'}
    end
    attempts = string.match(record, '^%a+ (%d+)') + 1
  else
    attempts = 1
  end
  if not ends then
    over, left, y = keyed_over(key, now)
    if over and left >= KEYED then
      return {now, 'full'}
    end
  end
else
  local g = call('HMGET', key, 'w', 'p', 'f')
  if g[1] and slot_of(g[1]) + 0 >= slot + 0 or g[3] and g[3] + 0 >= slot + 0 then
    return {now, 'moved'}
  end
  attempts = attempts_at(g[2], slot) + 1
  open, out = with_attempts(g[2], slot, attempts)
end
if attempts > limit then
  return {now, 'moved'}
end

local token = micros
if last and token <= last then
  token = string.format('%.0f', last + 1)
end
local ends = (now + lease) .. ''
call('HSET', key, 'k', KIND, 'o', owner, 'h', attempt, 't', token, 'u', ends, 's', slot, 'c', attempts, 'b', now, 'i', ARGV[11])
if holder then
  -- The run before lost its claim: nobody will say how it ended.
  ended = 'lost ' .. count .. ' ' .. last .. ' ' .. begun .. ' ' .. until_ms .. ' ' .. runner .. ' ' .. present
  call('HSET', key, 'l', ended)
  call('HDEL', key, 'e')
end
if open then
  call('HSET', key, 'p', open)
  if out then
    call('HSET', key, 'f', out)
  end
else
  if over then
    if over[1] then
      call('HDEL', key, unpack(over))
    end
    call('HSET', key, 'y', y)
  end
  local record = 'run ' .. attempts .. ' ' .. token .. ' ' .. now .. ' 0 ' .. ARGV[11] .. ' ' .. slot
  keyed_put(key, slot, record, now + lease + keep)
end
live(key, ttl)
return {now, 'granted', attempts, token, string.sub(ended or '', 1, 5) == 'lost ' and 1 or 0}
