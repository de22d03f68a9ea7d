-- uses $kind/exclusive, exclusive/acquire_plain, core/entries, $like/wait
-- entries 16 of PARTS keys, 4 arguments, behind 5
-- Takes names exclusively: several, each for itself, or all of them or none for one attempt. This
-- script follows exclusive/acquire_plain.lua, core/entries.lua and the wait.lua of its kind, which
-- has `wait`, `stay` and `waits`.
--
-- KEYS  for each name K, the hash that decides, and the indexes of its waiters, PARTS - 1; see the
--       kind
-- ARGV  1 act_before  last server time in ms at which this may act, the first of all limits
--       2 client  the part that all owners and attempts have in common
--       3 lease   ms
--       4 ttl     ms, lease + retention of the token
--       5 all     '' for names that have entries of their own; 'all' for names that the one entry
--         is about
--       6..       for each entry:
--         owner   the new holder, `:<n>`, to be appended to the client
--         attempt `:<n>`, to be appended to the client, never used twice
--         waiter  ms the waiter stays registered if it has to wait, or '' not to register
--         address for the notification, `<verb> <channel> <n>`, behind which a kind with an order
--                 has the owner's number; or '' for an attempt that ends with a busy answer
-- Reply a text of one line per entry
--       <now> granted <count> <token> <abandoned> <lasts>
--                and then what the kind adds; for an entry about more names, the same four items
--                for each. abandoned = 1 if the previous holder never released, lasts = ms from
--                now if that is less than the requested lease (its renewal is forbidden), else ''
--       <now> busy <i> <look ms> <holder> …
--                Another owner has name i of the entry, or it is another's turn; look = ms until
--                the next re-check is useful; see the kind
--       <now> more           too much to remove in one call: ask again at once
--       <now> void           this attempt has ended, or counts as ended, see core/attempts.lua
--       <now> kind <i> <kind>  name i is of another kind
--       -<code> <text>       the error of an entry, if there are others
--       {now, 'late'}        `act_before` has passed, for all entries
-- Cost  O(names): TIME, and per name HMGET, HSET, PEXPIRE; a busy answer HMGET and the kind's
--       share, without an address HSET; a copy HGET, and the kind's share.
--
-- Several names that are granted by one call may have equal tokens. Tokens are compared per name
-- only. The first write of each entry is one that a full server refuses. So a call to a full server
-- has written nothing.
local call = redis.call
local micros, now = began, string.sub(began, 1, 13)
local client, lease, ttl = ARGV[2], ARGV[3], ARGV[4]
local ends = (now + lease) .. ''

-- Looks whether an entry may have the name at KEYS[at], number i of the entry. Returns the answer
-- if it may not, else nil and what the server has of the name. `e` has owner, attempt, register,
-- address.
local function look(at, i, e)
  local key = KEYS[at]
  local kind, owner, token, until_ms, spent, waiters, called, given =
    unpack(call('HMGET', key, 'k', 'o', 't', 'u', 'v', 'n', 'y', 'p'))
  if kind ~= KIND and kind then
    return now .. ' kind ' .. i .. ' ' .. string.gsub(kind, '[%c ]', '?')
  end
  local has = {owner = owner, token = token, ends = until_ms, waiters = waiters, called = called, given = given}
  local held = owner and until_ms > now
  local refused
  spent, refused = spend(spent, e.attempt, ARGV[1], now)
  if refused then
    local attempts = held and owner == e.owner and call('HGET', key, 'h')
    local holds = attempts and string.find(attempts, ' ' .. e.attempt .. ' ', 1, true)
    if not holds and not waits(KEYS[at + 1], e.address) then
      return now .. ' void'
    end
  end
  if held and owner ~= e.owner or waiters and not held then
    local answer = wait(at, i, has, e, now, micros)
    if answer then
      if e.address == '' then
        -- Nobody undoes the attempt. Where the server takes no writes, no copy can act either.
        redis.pcall('HSET', key, 'v', spent)
      end
      return answer
    end
  end
  has.spent = spent
  return nil, has
end

-- Takes the name at KEYS[at], of which the server has `has`, for an entry. Returns
-- ` <count> <token> <abandoned> <lasts>`.
local function take(at, has, e)
  local key, attempt = KEYS[at], e.attempt
  local count, token, abandoned, lasts, last = 1, has.token, 0, '', has.token
  -- Waiters may need the key for longer than this hold.
  local life = ttl
  if has.waiters and has.waiters - now > ttl + 0 then
    life = has.waiters - now
  end
  if not has.owner or has.ends <= now then
    token = micros
    if last and token <= last then
      token = string.format('%.0f', last + 1)
    end
    if has.owner then
      -- A release after the end has emptied the set.
      if call('HGET', key, 'h') ~= ' ' then
        abandoned = 1
        -- A copy of this attempt gets the same answer.
        call('HSET', key, 'b', token)
      end
      call('HSET', key, 'o', e.owner, 'h', ' ' .. attempt .. ' ', 't', token, 'u', ends, 'v', has.spent)
    elseif last then
      -- A token without an owner was released; z keeps it for a repeated release.
      call('HSET', key, 'o', e.owner, 'h', ' ' .. attempt .. ' ', 't', token, 'u', ends, 'v', has.spent, 'z', last)
    else
      call('HSET', key, 'k', KIND, 'o', e.owner, 'h', ' ' .. attempt .. ' ', 't', token, 'u', ends, 'v', has.spent)
    end
    call('PEXPIRE', key, life)
  else
    -- Re-entry: the attempt joins the set; the lease never gets shorter. h attempts, f token whose
    -- renewal is forbidden, b token after a holder that died, p grant by a release that is not
    -- confirmed
    local h = call('HMGET', key, 'h', 'f', 'b', 'p')
    local held = h[1]
    if not string.find(held, ' ' .. attempt .. ' ', 1, true) then
      held = held .. attempt .. ' '
    end
    local later = ends
    if has.ends > ends or h[2] == token then
      -- The lease is longer already, or its renewal is forbidden.
      later = has.ends
      if has.ends < ends then
        lasts = has.ends - now
      end
    end
    if h[3] == token then
      abandoned = 1
    end
    call('HSET', key, 'h', held, 'u', later, 'v', has.spent)
    if h[4] then
      call('HDEL', key, 'p')
      if string.sub(h[4], 1, 16) == token then
        -- The place in the queue was used by the grant.
        has.place = 1
        stay(at, has, e, now)
        if has.waiters and has.waiters - now > life + 0 then
          life = has.waiters - now
        end
      end
    end
    call('PEXPIRE', key, later - ends + life)
    local _, spaces = string.gsub(held, ' ', ' ')
    count = spaces - 1
  end
  if has.waiters and e.address ~= '' then
    call('ZREM', KEYS[at + 1], e.address)
  end
  return ' ' .. count .. ' ' .. token .. ' ' .. abandoned .. ' ' .. lasts
end

-- Serves entry n: all of its names or none. Returns its line.
local function serve(n)
  local own = 4 * n + 2
  local e = {
    owner = client .. ARGV[own], attempt = client .. ARGV[own + 1], register = ARGV[own + 2], address = ARGV[own + 3],
  }
  local first, names = (n - 1) * PARTS + 1, ARGV[5] == '' and 1 or #KEYS / PARTS
  local found = {}
  for i = 1, names do
    local answer, has = look(first + (i - 1) * PARTS, i, e)
    if answer then
      return answer
    end
    found[i] = has
  end
  local line = now .. ' granted'
  for i = 1, names do
    line = line .. take(first + (i - 1) * PARTS, found[i], e)
  end
  if names == 1 and found[1].place then
    line = line .. ' 1'
  end
  return line
end

return entries_serve((#ARGV - 5) / 4, serve)
