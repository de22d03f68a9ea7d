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
--    x token of the last claim whose end is on record
--    z id of the last reset
--    y `<first> <last> <count>`: the keyed slots that are remembered, `y<n>` is one, in order of
--      age; count is the number of fields `d:…`
--    d:<slot>  `<until> <n> <record>`: the last run of a keyed slot, and its place y<n>
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

-- Returns the fields of remembered slots that are over, 16 slots at most, and the field y without
-- them. O(16). Writes nothing.
local function keyed_over(key, y, now)
  local first, last, count = string.match(y or '1 0 0', '^(%d+) (%d+) (%d+)$')
  local gone = {}
  local stop = math.min(last + 0, first + 15)
  for n = first + 0, stop do
    local slot = call('HGET', key, 'y' .. n) or ''
    local ends, place = string.match(call('HGET', key, 'd:' .. slot) or '', '^(%d+) (%d+) ')
    if place == n .. '' then
      if ends > now then
        break
      end
      gone[#gone + 1] = 'd:' .. slot
      count = count - 1
    end
    gone[#gone + 1] = 'y' .. n
    first = n + 1
  end
  return gone, first .. ' ' .. last .. ' ' .. count
end

-- Remembers the record of a keyed slot until `ends`. O(1): HGET × 2, HSET.
local function keyed_put(key, slot, record, ends)
  local first, last, count = string.match(call('HGET', key, 'y') or '1 0 0', '^(%d+) (%d+) (%d+)$')
  if not call('HGET', key, 'd:' .. slot) then
    count = count + 1
  end
  last = last + 1
  call('HSET', key, 'y', first .. ' ' .. last .. ' ' .. count, 'y' .. last, slot, 'd:' .. slot, ends .. ' ' .. last .. ' ' .. record)
end

-- Forgets a keyed slot. Its place stays until it is the first. O(1).
local function keyed_drop(key, slot)
  local first, last, count = string.match(call('HGET', key, 'y') or '1 0 0', '^(%d+) (%d+) (%d+)$')
  if call('HDEL', key, 'd:' .. slot) == 1 then
    call('HSET', key, 'y', first .. ' ' .. last .. ' ' .. count - 1)
  end
end

-- Makes the key live for `ttl` ms at least.
local function live(key, ttl)
  if call('PTTL', key) < ttl + 0 then
    call('PEXPIRE', key, ttl)
  end
end
