local KIND = 'lock:1'
local PARTS = 2
-- The plain case of an acquisition, which most of them are. This part follows a line that sets
-- KIND, precedes the scripts that take names, and does nothing by itself.

-- Takes a name that nobody holds or waits for, and on which no attempt was undone: its fields are
-- kind, owner, token, voids, waiters. `micros` is the time in µs. Returns the token of the new
-- hold, or nil without a write if the name is not plain. `attempts` is ` <attempt> `. O(1): HSET,
-- PEXPIRE.
local function plain_take(key, kind, owner, token, voids, waiters, new_owner, attempts, micros, ends, ttl)
  if owner or voids or waiters or kind and kind ~= KIND then
    return nil
  end
  local new = micros
  if token then
    if new <= token then
      new = string.format('%.0f', token + 1)
    end
    -- A token without an owner was released; z keeps it for a repeated release.
    redis.call('HSET', key, 'o', new_owner, 'h', attempts, 't', new, 'u', ends, 'z', token)
  else
    redis.call('HSET', key, 'k', KIND, 'o', new_owner, 'h', attempts, 't', new, 'u', ends)
  end
  redis.call('PEXPIRE', key, ttl)
  return new
end

-- The beginning of scripts that must not act late, and of which most calls are plain: reads the
-- server's time, and refuses a request that comes too late. It precedes the functions of the other
-- cases, since the server executes their definitions in every call.
--
-- ARGV  1 act_before  last server time in ms at which the script may act
-- Reply {now, 'late'}   `act_before` has passed
--       an error `CLOCK …` if the server's clock cannot be compared as text
--
-- Leaves `began`, the time in µs with 16 digits. Its first 13 digits are ms. Times are compared as
-- text of equal length, which saves conversions. `..` may be used on ms, and not on µs, which have
-- too many digits.
local time = redis.call('TIME')
if #time[1] ~= 10 then
  return redis.error_reply('CLOCK the clock of this server is not between 2001 and 2286')
end
local began = time[1] .. string.sub('00000' .. time[2], -6)
if string.sub(began, 1, 13) > ARGV[1] or #ARGV[1] ~= 13 then
  return {string.sub(began, 1, 13), 'late'}
end

-- The plain case of exclusive/acquire.lua, which describes keys, arguments and replies. This part
-- follows exclusive/plain_take.lua, core/begin.lua and a line that sets KIND and PARTS.
--
-- Leaves `only`: if the call is about one name, its fields.
local only
if #KEYS == PARTS then
  local now = string.sub(began, 1, 13)
  local f = redis.call('HMGET', KEYS[1], 'k', 'o', 't', 'u', 'v', 'n', 'y', 'p')
  local attempts, ends = ' ' .. ARGV[3] .. ' ', (now + ARGV[4]) .. ''
  local token = plain_take(KEYS[1], f[1], f[2], f[3], f[5], f[6], ARGV[2], attempts, began, ends, ARGV[5])
  if token then
    return now .. ' granted 1 ' .. token .. ' 0 '
  end
  only = f
end

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

-- The plain lock's way to wait: whoever comes first. This part precedes exclusive/acquire.lua.
--
-- Q  sorted set, waiter's address `<verb> <channel> <n>` -> ms until which it counts as alive; one
--    for each name

-- Registers a waiter for name i, if the call asks for that. Any caller may take a free name. The
-- answer's `look` is the rest of the lease. O(log waiters): HSET, ZADD, PEXPIRE.
local function wait(i, m, f, now, _micros)
  if not f[2] or f[4] <= now then
    return nil
  end
  if ARGV[6] ~= '' then
    local alive = (now + ARGV[6]) .. ''
    local last = alive
    if f[6] and f[6] > alive then
      last = f[6]
    end
    redis.call('HSET', KEYS[i], 'n', last)
    redis.call('ZADD', KEYS[m + i], alive, ARGV[7])
    redis.call('PEXPIRE', KEYS[m + i], last - now)
  end
  return now .. ' busy ' .. i .. ' ' .. f[4] - now .. ' ' .. f[2]
end

-- Only kinds with an order count who is alive.
local function stay(_i, _m, _f, _now) end

-- Takes m names for one owner, exclusively: all of them or none. This script follows
-- exclusive/acquire_plain.lua, core/marks.lua, and the wait.lua of its kind, which has `wait` and
-- `stay`.
--
-- KEYS  1..m      K of each name: the hash that decides
--       m+1..     the indexes of its waiters, PARTS - 1 for each name; see the kind
-- ARGV  1 by      last server time in ms at which this may act
--       2 owner   the new holder, `<client>:<n>`
--       3 attempt `<client>:<n>`, never used twice
--       4 lease   ms
--       5 ttl     ms, lease + retention of the token
--       6 waiter  ms the waiter stays registered if it has to wait, or '' not to register
--       7 address for the notification, `<verb> <channel> <n>`, or ''
-- Reply {now, 'granted', count, token, abandoned, lasts, …}
--                for one name, then what the kind adds; for more names, four more items each.
--                abandoned = 1 if the previous holder never released, lasts = ms from now if that
--                is less than the requested lease (its renewal is forbidden), else ''.
--                For one name whose kind adds nothing: the same items as one text, separated by
--                spaces. A list costs the server more than a µs to write, and the client as much
--                to read.
--       {now, 'busy', i, look ms, holder, …}
--                as a text. Another owner has name i, or it is another's turn; look = ms until
--                the next re-check is useful; see the kind
--       {now, 'more'}           too much to remove in one call: ask again at once
--       {now, 'late'}           `by` has passed
--       {now, 'void'}           this attempt was undone
--       {now, 'kind', i, kind}  name i is of another kind
-- Cost  O(m): TIME, and per name HMGET, HSET, PEXPIRE; a busy answer HMGET and the kind's share;
--       with void marks HGET, and HGET, HMGET, HDEL, HGET, HSET to remove 64 expired ones; see
--       core/marks.lua.
local call = redis.call
local micros, now = began, string.sub(began, 1, 13)
local owner, attempt, lease, ttl, address = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[7]
local m = #KEYS / PARTS
local ends = (now + lease) .. ''
local names = {}
for i = 1, m do
  -- k kind, o owner, t token, u until, v voids, n waiters until, y notified waiter, p grant by a
  -- release that is not confirmed
  local f = only or call('HMGET', KEYS[i], 'k', 'o', 't', 'u', 'v', 'n', 'y', 'p')
  if f[1] ~= KIND and f[1] then
    return {now, 'kind', i, f[1]}
  end
  if f[5] and call('HGET', KEYS[i], 'v:' .. attempt) then
    return {now, 'void'}
  end
  local held = f[2] and f[4] > now
  if held and f[2] ~= owner or f[6] and not held then
    local answer = wait(i, m, f, now, micros)
    if answer then
      return answer
    end
  end
  names[i] = f
end

local replies = m > 1 and {}
for i = 1, m do
  local key, f = KEYS[i], names[i]
  local count, token, abandoned, lasts, last = 1, f[3], 0, '', f[3]
  -- Waiters may need the key for longer than this hold.
  local life = ttl
  if f[6] and f[6] - now > ttl + 0 then
    life = f[6] - now
  end
  if not f[2] or f[4] <= now then
    token = micros
    if last and token <= last then
      token = string.format('%.0f', last + 1)
    end
    if f[2] then
      -- A release after the end has emptied the set.
      if call('HGET', key, 'h') ~= ' ' then
        abandoned = 1
        -- A copy of this attempt gets the same answer.
        call('HSET', key, 'b', token)
      end
      call('HSET', key, 'o', owner, 'h', ' ' .. attempt .. ' ', 't', token, 'u', ends)
    elseif last then
      -- A token without an owner was released; z keeps it for a repeated release.
      call('HSET', key, 'o', owner, 'h', ' ' .. attempt .. ' ', 't', token, 'u', ends, 'z', last)
    else
      call('HSET', key, 'k', KIND, 'o', owner, 'h', ' ' .. attempt .. ' ', 't', token, 'u', ends)
    end
    call('PEXPIRE', key, life)
  else
    -- Re-entry: the attempt joins the set; the lease never gets shorter. h attempts, f token whose
    -- renewal is forbidden, b token after a holder that died, p grant by a release that is not
    -- confirmed
    local h = call('HMGET', key, 'h', 'f', 'b', 'p')
    local held = h[1]
    if h[4] then
      call('HDEL', key, 'p')
      if string.sub(h[4], 1, 16) == token then
        -- The place in the queue was used by the grant.
        f.place = 1
        stay(i, m, f, now)
        if f[6] and f[6] - now > life + 0 then
          life = f[6] - now
        end
      end
    end
    if not string.find(held, ' ' .. attempt .. ' ', 1, true) then
      held = held .. attempt .. ' '
    end
    local later = ends
    if f[4] > ends or h[2] == token then
      -- The lease is longer already, or its renewal is forbidden.
      later = f[4]
      if f[4] < ends then
        lasts = f[4] - now
      end
    end
    if h[3] == token then
      abandoned = 1
    end
    call('HSET', key, 'h', held, 'u', later)
    call('PEXPIRE', key, later - ends + life)
    local _, spaces = string.gsub(held, ' ', ' ')
    count = spaces - 1
  end
  if f[5] then
    marks_sweep(key, f[5], now)
  end
  if f[6] and address ~= '' then
    call('ZREM', KEYS[m + i], address)
  end
  if m == 1 then
    if f.place then
      return {now, 'granted', count, token, abandoned, lasts, f.place}
    end
    return now .. ' granted ' .. count .. ' ' .. token .. ' ' .. abandoned .. ' ' .. lasts
  end
  local at = 4 * i
  replies[at - 3], replies[at - 2], replies[at - 1], replies[at] = count, token, abandoned, lasts
end
return {now, 'granted', unpack(replies)}
