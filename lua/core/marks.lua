-- Void marks of undone attempts. A mark keeps late copies of its attempt from acting. This part
-- precedes the scripts that set or read marks, and does nothing by itself.
--
-- K  v            `<first> <last> <marks in the last> <end of the first> <end of the last>`, the
--                 list of chunks; absent without marks
--    v<i>         `<end> <attempt> …`, chunk i: at most 64 attempts; their marks are over at the
--                 chunk's end (ms)
--    v:<attempt>  ms until which copies of the attempt may act
--
-- A script reads a mark by its name, and only if `v` exists. Expired marks are harmless. Each
-- script that takes the name or sets a mark removes the marks of one expired chunk, so that its
-- cost does not grow with their number. Times are text of 13 digits and compared as text.

-- Size of a chunk, and the ms by which it outlasts its first mark.
local MARKS = 64
local MARKS_SPAN = 500

-- Removes the marks of the first chunk if all of them are over. Returns the new `v`. O(1), with an
-- expired chunk O(64). Begins with HDEL, which a full server accepts.
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
      -- A prolonged mark is in a later chunk as well.
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

-- Marks an attempt whose copies could act until `void`. `v` is that field; `kind` becomes field k.
-- O(1), plus the removal of a chunk. Begins with HDEL, which a full server accepts. The caller sets
-- the key's TTL.
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

