-- uses $kind/exclusive, exclusive/release_plain, core/end_attempt, $like/wake
-- Ends everything that one attempt has on m names: its hold, its place among the waiters, its late
-- copies. Release, undo of an abandoned acquire, and leave of a waiter are the same operation. This
-- script follows exclusive/release_plain.lua, core/end_attempt.lua, and the wake.lua of its kind,
-- which has `wake` and `remind`.
--
-- KEYS  1..m      K of each name
--       m+1..     the indexes of its waiters, first Q of each; optional (a slot on the move);
--                 without them nobody is notified
-- ARGV  1 owner   `<client>:<n>`
--       2 attempt `<client>:<n>`, or '' to end no hold
--       3 void    last ms at which a request of the acquire may act; '' for a hold that was
--                 delivered after an answer to each request
--       4 keep    ms the token is kept after the name is free
--       5 address the waiter to remove, `<verb> <channel> <n>`, or ''; behind a `+` the next local
--         waiter, to remove if this call frees the name
--       6..5+m    token of each hold, or '' where it is not known
-- Reply {now, verdict, left, …}
--                two items per name; left = attempts that still hold. For one name: the same items
--                as one text, separated by spaces, and the kind's report on waiters
--       released  this call ended the attempt's hold
--       expired   the same, but the lease had already ended
--       already   the hold had ended cleanly before
--       revoked   the hold had been ended by force
--       taken     the name has passed to a later hold
--       gone      the hold is unknown
--       kind      the name is of another kind
-- Cost  O(m): TIME, and per name HMGET, HDEL, PEXPIRE; with waiters the cost of a notification, see
--       the kind; with `void` + HGET, HDEL, HSET; an undo of a hold HMGET.
--
-- Needs no `by`: an attempt's id is never used again, so a late or repeated call ends only what
-- that attempt has. Begins with writes that a full server accepts.
local call = redis.call
local micros, now = began, string.sub(began, 1, 13)
local owner, attempt, void, keep, address = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local m = #ARGV - 5

local reply = m > 1 and {now}
local told = ''
for i = 1, m do
  local key, queue, token = KEYS[i], KEYS[m + i], ARGV[5 + i]
  -- k kind, o owner, h attempts, t token, u until, n waiters until, y notified waiter
  local f = only or call('HMGET', key, 'k', 'o', 'h', 't', 'u', 'n', 'y')
  local verdict, left = 'kind', 0
  if f[1] == KIND or not f[1] then
    local live, rest = f[5] and f[5] > now, f[3]
    local from, to, ended
    if f[2] == owner and attempt ~= '' then
      from, to = string.find(rest, ' ' .. attempt .. ' ', 1, true)
    end

    if from then
      rest = string.sub(rest, 1, from) .. string.sub(rest, to + 1)
      verdict = live and 'released' or call('HGET', key, 'f') == f[4] and 'revoked' or 'expired'
      -- An undo passes on that the holder before has died, also when its time is over. b is the
      -- token of a hold after such a holder, p says so of a hold that is not confirmed.
      local unheard, died = false, false
      if token == '' and rest == ' ' then
        local before = call('HMGET', key, 'p', 'b')
        unheard = before[1] and string.sub(before[1], 1, 18) == f[4] .. ' 1'
        died = unheard or before[2] == f[4]
      end
      if died then
        -- ` - ` is a hold that was given back in time, or that nobody knew of; ` = ` is another
        -- one.
        rest = (unheard or live) and ' - ' or ' = '
        live = false
        call('HDEL', key, 'p')
        call('HSET', key, 'h', rest, 'u', '0000000000000')
      elseif rest == ' ' and live then
        live, ended = false, true
        f[2] = false
        call('HDEL', key, 'o', 'h', 'u', 'p')
      else
        call('HDEL', key, '')
        if rest == ' ' then
          -- An expired hold keeps its owner field, so that a copy of this call gets the same
          -- answer. The clock of another server may be behind: an end here has to be an end there.
          call('HSET', key, 'h', rest, 'u', '0000000000000')
        else
          call('HSET', key, 'h', rest)
        end
      end
      if token ~= '' and token < f[4] then
        verdict = 'taken'
      end
    elseif not f[4] or token == '' then
      verdict = 'gone'
    elseif f[4] == token and (live or not f[2]) then
      verdict = 'already'
    else
      -- z last token that was released, f token that was forced
      local z = call('HMGET', key, 'z', 'f')
      if z[1] == token then
        verdict = 'already'
      elseif z[2] == token then
        verdict = 'revoked'
      elseif f[4] == token then
        verdict = rest == ' - ' and 'already' or 'expired'
      elseif token < f[4] then
        verdict = 'taken'
      else
        verdict = 'gone'
      end
    end
    -- Waiters may need the key for longer than the token.
    local life = keep
    if f[6] and f[6] - now > keep + 0 then
      life = f[6] - now
    end
    if live and f[2] == owner then
      local _, spaces = string.gsub(rest, ' ', ' ')
      left = spaces - 1
    end

    if void ~= '' and void >= now then
      -- Copies of this attempt must not act any more.
      end_attempt(key, call('HGET', key, 'v'), KIND, attempt, void, now)
    end

    if queue and address ~= '' then
      if string.sub(address, 1, 1) ~= '+' then
        call('ZREM', queue, address)
      elseif verdict == 'released' and not live then
        call('ZREM', queue, string.sub(address, 2))
      end
    end
    if not live then
      local before
      if queue and f[6] then
        before = {
          now = now, micros = micros, token = f[4], clean = not f[2], abandoned = f[2] and rest ~= ' ' and 1 or 0,
          client = m == 1 and string.match(owner, '^[^:]*'), life = life, given = false, called = f[7],
          written = from,
        }
        told = wake(i, m, now, before) or ''
      end
      if not before or not before.given then
        -- K lives longer than the lease by `keep`, which is long enough but after a long lease.
        if not ended or life ~= keep or f[5] > (now + keep) .. '' then
          call('PEXPIRE', key, life)
        end
      end
    elseif m == 1 and not from then
      told = remind(key, f[4], f[2], owner)
    end
  end
  if m == 1 then
    return now .. ' ' .. verdict .. ' ' .. left .. told
  end
  reply[2 * i], reply[2 * i + 1] = verdict, left
end
return reply
