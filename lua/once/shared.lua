-- What a job is on the server, and the functions that its scripts share. This part precedes them
-- and does nothing by itself.
--
-- K  hash
--    k kind
--    t token of the last claim, in µs and rising
--    o owner of the claim, h its attempt, u until when it lasts; absent while nobody runs
--    s slot of the claim, c number of this attempt at the slot, b when it began, i who runs it
--    l record of the last run that has ended, e why it failed
--    w record of the last success in a time slot
--    p ` <slot>:<attempts> …`, the time slots after that success that were attempted, at most 64
--    f all time slots up to this one are closed, since they fell out of p
--    x `<token> <outcome>` of the last claim whose end is on record
--    z id of the last reset
--    y `<count> <due>`: the number of fields `d:…`, and the number at which a claim of a new slot
--      looks for those that are over
--    d:<slot>  `<until> <record>`: the last run of a keyed slot; during the run, `until` follows u
--    v undone attempts, see core/attempts.lua
--
-- A slot is the ms at which it starts, or `=<key>`. A record is `<outcome> <attempt> <token>
-- <began> <ended> <who> <slot>`; outcomes are run, done, failed, overran, dropped, lost. Times are
-- ms as text of 13 digits and compared as text; slots are compared as numbers.
local KIND = 'once:1'
local call = redis.call

-- The most keyed slots and the most open time slots that a job remembers.
local KEYED = 1000
local OPEN = 64

local function is_keyed(slot)
  return string.sub(slot, 1, 1) == '='
end

-- Returns the slot of a record.
local function slot_of(record)
  return string.match(record, '^%a+ %d+ %d+ %d+ %d+ %S* (.*)$')
end

-- Returns the number of attempts at a time slot in `open`, the field p.
local function attempts_at(open, slot)
  return (string.match(open or '', ' ' .. slot .. ':(%d+) ') or 0) + 0
end

-- Returns `open` with this number of attempts at a time slot; zero removes it. Returns a slot that
-- fell out as well. O(64).
local function with_attempts(open, slot, attempts)
  local kept, count, least = ' ', 0, nil
  for other, n in string.gmatch(open or '', '(%d+):(%d+)') do
    if other ~= slot then
      kept = kept .. other .. ':' .. n .. ' '
      count = count + 1
      if not least or other + 0 < least + 0 then
        least = other
      end
    end
  end
  if attempts > 0 then
    kept = kept .. slot .. ':' .. attempts .. ' '
    count = count + 1
    if not least or slot + 0 < least + 0 then
      least = slot
    end
  end
  if count > OPEN then
    return string.gsub(kept, ' ' .. least .. ':%d+ ', ' '), least
  end
  return kept, nil
end

-- Returns the part of `open` that is after a time slot. O(64).
local function open_after(open, slot)
  local kept = ' '
  for other, n in string.gmatch(open or '', '(%d+):(%d+)') do
    if other + 0 > slot + 0 then
      kept = kept .. other .. ':' .. n .. ' '
    end
  end
  return kept
end

-- Stores the field p.
local function put_open(key, open)
  if open == ' ' then
    call('HDEL', key, 'p')
  else
    call('HSET', key, 'p', open)
  end
end

-- Looks for keyed slots that are over, if a look is due. Returns their fields, the number of the
-- other slots, and the field y without those that are over. The next look is due when the number of
-- slots has doubled, so claims share the cost. O(1): HGET; a look also HGETALL, O(slots, at most
-- 1,000). Writes nothing.
local function keyed_over(key, now)
  local count, due = string.match(call('HGET', key, 'y') or '0 16', '^(%d+) (%d+)$')
  if count + 0 < due + 0 then
    return nil
  end
  local over, fields = {}, call('HGETALL', key)
  for i = 1, #fields, 2 do
    if string.sub(fields[i], 1, 2) == 'd:' and string.sub(fields[i + 1], 1, 13) <= now then
      over[#over + 1] = fields[i]
    end
  end
  local left = count - #over
  return over, left, left .. ' ' .. math.min(2 * left + 16, KEYED)
end

-- Counts `by` more keyed slots. O(1): HGET, HSET.
local function keyed_count(key, by)
  local count, due = string.match(call('HGET', key, 'y') or '0 16', '^(%d+) (%d+)$')
  call('HSET', key, 'y', count + by .. ' ' .. due)
end

-- Remembers the record of a keyed slot until `ends`. O(1): HSET; of a new slot also HGET, HSET.
local function keyed_put(key, slot, record, ends)
  if call('HSET', key, 'd:' .. slot, ends .. ' ' .. record) == 1 then
    keyed_count(key, 1)
  end
end

-- Forgets a keyed slot. O(1): HDEL, HGET, HSET.
local function keyed_drop(key, slot)
  if call('HDEL', key, 'd:' .. slot) == 1 then
    keyed_count(key, -1)
  end
end

-- Makes the key live for `ttl` ms at least.
local function live(key, ttl)
  if call('PTTL', key) < ttl + 0 then
    call('PEXPIRE', key, ttl)
  end
end
