-- uses $kind/exclusive, exclusive/release_plain, core/entries, core/end_attempt, $like/wake
-- entries 16 of PARTS keys, 5 arguments, behind 2
-- Ends everything that attempts have on names, each by itself: the hold, the place among the
-- waiters, late copies. Release, undo of an abandoned acquire, and leave of a waiter are the same
-- operation. This script follows exclusive/release_plain.lua, core/entries.lua,
-- core/end_attempt.lua, and the wake.lua of its kind, which has `wake` and `remind`.
--
-- KEYS  for each entry K, and the indexes of its waiters, first Q. The indexes are optional (a slot
--       on the move); without them nobody is notified
-- ARGV  1 client  the part that all owners and attempts have in common
--       2 keep    ms the token is kept after the name is free
--       3..       for each entry:
--         owner   `:<n>`, to be appended to the client
--         attempt `:<n>`, to be appended to the client, or '' to end no hold
--         void    last ms at which a request of the acquire may act; '' for a hold that was
--                 delivered after an answer to each request
--         address the waiter to remove, as it has registered, or ''; behind a `+` the next local
--                 waiter, to remove if this call frees the name
--         token   of the hold, or '' where it is not known
-- Reply a text of one line per entry, `<now> <verdict> <left>` and the kind's report on waiters;
--       left = attempts that still hold
--       released  this call ended the attempt's hold
--       expired   the same, but the lease had already ended
--       already   the hold had ended cleanly before
--       revoked   the hold had been ended by force
--       taken     the name has passed to a later hold
--       gone      the hold is unknown
--       kind      the name is of another kind
--       -<code> <text>   the error of an entry, if there are others
-- Cost  O(entries): TIME, and for each HMGET, HDEL, PEXPIRE; with waiters the cost of a
--       notification, see the kind; with `void` + HGET, HDEL, HSET; an undo of a hold HMGET.
--
-- Needs no `act_before`: an attempt's id is never used again, so a late or repeated call ends only
-- what that attempt has. Begins with writes that a full server accepts.
local call = redis.call
local micros, now = began, string.sub(began, 1, 13)
local client, keep = ARGV[1], ARGV[2]

-- Ends what entry n is about. Returns its line.
local function serve(n)
  local at, own = (n - 1) * width + 1, 5 * n - 2
  local key, queue = KEYS[at], width > 1 and KEYS[at + 1]
  local owner, attempt = client .. ARGV[own], ARGV[own + 1]
  local void, address, token = ARGV[own + 2], ARGV[own + 3], ARGV[own + 4]
  local kind, holder, attempts, current, ends, waiters, called =
    unpack(call('HMGET', key, 'k', 'o', 'h', 't', 'u', 'n', 'y'))
  local verdict, left, told = 'kind', 0, ''
  if kind == KIND or not kind then
    local live = ends and ends > now
    local from, to, ended
    if attempt ~= '' then
      attempt = client .. attempt
      if holder == owner then
        from, to = string.find(attempts, ' ' .. attempt .. ' ', 1, true)
      end
    end

    if from then
      attempts = string.sub(attempts, 1, from) .. string.sub(attempts, to + 1)
      verdict = live and 'released' or call('HGET', key, 'f') == current and 'revoked' or 'expired'
      -- An undo passes on that the holder before has died, also when its time is over. b is the
      -- token of a hold after such a holder, p says so of a hold that is not confirmed.
      local unheard, died = false, false
      if token == '' and attempts == ' ' then
        local before = call('HMGET', key, 'p', 'b')
        unheard = before[1] and string.sub(before[1], 1, 18) == current .. ' 1'
        died = unheard or before[2] == current
      end
      if died then
        -- ` - ` is a hold that was given back in time, or that nobody knew of; ` = ` is another
        -- one.
        attempts = (unheard or live) and ' - ' or ' = '
        live = false
        call('HDEL', key, 'p')
        call('HSET', key, 'h', attempts, 'u', '0000000000000')
      elseif attempts == ' ' and live then
        live, ended = false, true
        holder = false
        call('HDEL', key, 'o', 'h', 'u', 'p')
      else
        call('HDEL', key, '')
        if attempts == ' ' then
          -- An expired hold keeps its owner field, so that a copy of this call gets the same
          -- answer. The clock of another server may be behind: an end here has to be an end there.
          call('HSET', key, 'h', attempts, 'u', '0000000000000')
        else
          call('HSET', key, 'h', attempts)
        end
      end
      if token ~= '' and token < current then
        verdict = 'taken'
      end
    elseif not current or token == '' then
      verdict = 'gone'
    elseif current == token and (live or not holder) then
      verdict = 'already'
    else
      -- z last token that was released, f token that was forced
      local z = call('HMGET', key, 'z', 'f')
      if z[1] == token then
        verdict = 'already'
      elseif z[2] == token then
        verdict = 'revoked'
      elseif current == token then
        verdict = attempts == ' - ' and 'already' or 'expired'
      elseif token < current then
        verdict = 'taken'
      else
        verdict = 'gone'
      end
    end
    -- Waiters may need the key for longer than the token.
    local life = keep
    if waiters and waiters - now > keep + 0 then
      life = waiters - now
    end
    if live and holder == owner then
      local _, spaces = string.gsub(attempts, ' ', ' ')
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
      if queue and waiters then
        before = {
          now = now, micros = micros, token = current, clean = not holder, abandoned = holder and attempts ~= ' ' and 1 or 0,
          client = string.match(owner, '^[^:]*'), life = life, given = false, called = called, written = from,
        }
        told = wake(at, now, before) or ''
      end
      if not before or not before.given then
        -- K lives longer than the lease by `keep`, which is long enough but after a long lease.
        if not ended or life ~= keep or ends > (now + keep) .. '' then
          call('PEXPIRE', key, life)
        end
      end
    elseif not from then
      told = remind(key, current, holder, owner)
    end
  end
  return now .. ' ' .. verdict .. ' ' .. left .. told
end

return entries_serve(#KEYS / width, serve)
