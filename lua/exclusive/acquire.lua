-- uses $kind/exclusive, exclusive/acquire_plain, $like/wait
-- Takes m names for one owner, exclusively: all of them or none. This script follows
-- exclusive/acquire_plain.lua and the wait.lua of its kind, which has `wait`, `stay` and `waits`.
--
-- KEYS  1..m      K of each name: the hash that decides
--       m+1..     the indexes of its waiters, PARTS - 1 for each name; see the kind
-- ARGV  1 by      last server time in ms at which this may act
--       2 owner   the new holder, `<client>:<n>`
--       3 attempt `<client>:<n>`, never used twice
--       4 lease   ms
--       5 ttl     ms, lease + retention of the token
--       6 waiter  ms the waiter stays registered if it has to wait, or '' not to register
--       7 address for the notification, `<verb> <channel> <n>`, or '' for an attempt that ends with
--         a busy answer
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
--       {now, 'void'}           this attempt has ended, or counts as ended, see core/attempts.lua
--       {now, 'kind', i, kind}  name i is of another kind
-- Cost  O(m): TIME, and per name HMGET, HSET, PEXPIRE; a busy answer HMGET and the kind's share,
--       without an address HSET; a copy HGET, and the kind's share.
local call = redis.call
local micros, now = began, string.sub(began, 1, 13)
local owner, attempt, lease, ttl, address = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[7]
local m = #KEYS / PARTS
local ends = (now + lease) .. ''
local names = {}
for i = 1, m do
  -- k kind, o owner, t token, u until, v attempts that may not act, n waiters until, y notified
  -- waiter, p grant by a release that is not confirmed
  local f = only or call('HMGET', KEYS[i], 'k', 'o', 't', 'u', 'v', 'n', 'y', 'p')
  if f[1] ~= KIND and f[1] then
    return {now, 'kind', i, f[1]}
  end
  local held = f[2] and f[4] > now
  local spent, refused = spend(f[5], attempt, ARGV[1], now)
  if refused then
    local attempts = held and f[2] == owner and call('HGET', KEYS[i], 'h')
    local holds = attempts and string.find(attempts, ' ' .. attempt .. ' ', 1, true)
    if not holds and not waits(KEYS[m + i], address) then
      return {now, 'void'}
    end
  end
  if held and f[2] ~= owner or f[6] and not held then
    local answer = wait(i, m, f, now, micros)
    if answer then
      if address == '' then
        -- Nobody undoes the attempt. Where the server takes no writes, no copy can act either.
        redis.pcall('HSET', KEYS[i], 'v', spent)
      end
      return answer
    end
  end
  f[5] = spent
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
      call('HSET', key, 'o', owner, 'h', ' ' .. attempt .. ' ', 't', token, 'u', ends, 'v', f[5])
    elseif last then
      -- A token without an owner was released; z keeps it for a repeated release.
      call('HSET', key, 'o', owner, 'h', ' ' .. attempt .. ' ', 't', token, 'u', ends, 'v', f[5], 'z', last)
    else
      call('HSET', key, 'k', KIND, 'o', owner, 'h', ' ' .. attempt .. ' ', 't', token, 'u', ends, 'v', f[5])
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
    call('HSET', key, 'h', held, 'u', later, 'v', f[5])
    call('PEXPIRE', key, later - ends + life)
    local _, spaces = string.gsub(held, ' ', ' ')
    count = spaces - 1
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
