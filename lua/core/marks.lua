-- Marks of undone attempts, which keep late copies of an attempt from acting. Goes in front of the scripts that set marks or look for
-- them; it has no effect by itself.
--
-- K  v            `<first> <last> <marks in the last> <end of the first> <end of the last>`, the chunks there are; absent without marks
--    v<i>         `<end> <attempt> …`, chunk i: attempts whose marks are over at its end (ms), 64 at most
--    v:<attempt>  ms until which copies of the attempt may act
--
-- A script looks for a mark only if there is `v`, by its name. Marks that are over are harmless. Whoever takes the name or sets a mark
-- removes those of one chunk, so that the cost of a script does not depend on how many there are.
-- Times are text of 13 digits and compared as such.

-- How many marks a chunk has, and for how much longer than its first mark it lasts, in ms.
local MARKS = 64
local MARKS_SPAN = 500

-- Removes the marks of the first chunk if all of them are over; returns `v` as it is from now on. O(1), with a chunk that is over O(64).
-- Begins with HDEL, which a full server takes.
local function marks_sweep(key, v, now)
  local first, last, count, over, newest = string.match(v, '^(%d+) (%d+) (%d+) (%d+) (%d+)$')
  if over and over >= now then
    return v
  elseif not over then
    redis.call('HDEL', key, 'v')
    return false
  end
  local gone = {'v' .. first}
  local fields = {}
  for attempt in string.gmatch(string.sub(redis.call('HGET', key, 'v' .. first) or '', 15), '%S+') do
    fields[#fields + 1] = 'v:' .. attempt
  end
  if fields[1] then
    local ends = redis.call('HMGET', key, unpack(fields))
    for i = 1, #fields do
      -- One that was prolonged stands in a later chunk, too.
      if ends[i] and ends[i] < now then
        gone[#gone + 1] = fields[i]
      end
    end
  end
  if first == last then
    gone[#gone + 1] = 'v'
    redis.call('HDEL', key, unpack(gone))
    return false
  end
  redis.call('HDEL', key, unpack(gone))
  first = first + 1 .. ''
  over = newest
  if first ~= last then
    over = string.sub(redis.call('HGET', key, 'v' .. first) or now, 1, 13)
  end
  v = first .. ' ' .. last .. ' ' .. count .. ' ' .. over .. ' ' .. newest
  redis.call('HSET', key, 'v', v)
  return v
end

-- Marks an attempt of which copies may act until `void`, so that they do not. `v` is that field, `kind` is entered as k. O(1) and what a sweep
-- costs. Begins with HDEL, which a full server takes. Leaves the key's end to the caller.
local function marks_add(key, v, kind, attempt, void, now)
  redis.call('HDEL', key, '')
  v = v and marks_sweep(key, v, now)
  local first, last, count, over, newest = '1', '0', '0', '', ''
  if v then
    first, last, count, over, newest = string.match(v, '^(%d+) (%d+) (%d+) (%d+) (%d+)$')
  end
  local f = redis.call('HMGET', key, 'v:' .. attempt, 'v' .. last)
  if f[1] and f[1] >= void then
    return
  end
  local chunk = f[2]
  if chunk and count + 0 < MARKS and void <= newest then
    chunk = chunk .. ' ' .. attempt
    count = count + 1
  else
    newest = (void + MARKS_SPAN) .. ''
    last = last + 1 .. ''
    count = 1
    chunk = newest .. ' ' .. attempt
    if over == '' then
      over = newest
    end
  end
  v = first .. ' ' .. last .. ' ' .. count .. ' ' .. over .. ' ' .. newest
  redis.call('HSET', key, 'k', kind, 'v', v, 'v' .. last, chunk, 'v:' .. attempt, void)
end

