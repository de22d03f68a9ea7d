-- Ends what one attempt has on m names: its hold, its place among the waiters, its late copies.
-- A release, the undo of an abandoned acquire and a waiter's leave are the same act. Goes behind core/marks.lua and the kind.lua of its
-- kind, which has KIND and `wake`.
--
-- KEYS  1..m      K of each name
--       m+1..     the indexes of its waiters, first Q of each; may be left out (a slot on the move), then nobody is woken
-- ARGV  1 owner   `<client>:<n>`
--       2 attempt `<client>:<n>`, or '' to end no hold
--       3 void    last ms at which a copy of the acquire may act, or '' when none is under way
--       4 keep    ms the token is kept once the name is free
--       5 address the waiter to strike out, `<verb> <channel> <n>`, or ''; after a `+` one that asks right behind this, to strike out if this frees the name
--       6..5+m    token of each hold, or '' where it is not known
-- Reply {now, verdict, left, …}  two items per name; left = attempts that still hold. One name: the same items as one text, with a space between any two,
--                                and what the kind says of those who wait
--       released  this ended the attempt's hold
--       expired   so it did, but the lease had run out before
--       already   it had ended cleanly before
--       revoked   it had been ended by force
--       taken     the name has passed to a later hold
--       gone      nothing is known of it
--       kind      the name is something else
-- Cost  O(m): TIME, and per name HMGET, HDEL, PEXPIRE; with waiters what waking one costs, see the kind; with copies under way
--       + HDEL, HGET, HMGET, HSET, see core/marks.lua.
--
-- Needs no `by`: an attempt's id is never used again, so at any time and any number of times this only
-- ends what that attempt has. Begins with writes that a full server takes.
local call = redis.call
local time = call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
local owner, attempt, void, keep, address = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local m = #ARGV - 5

local reply = m > 1 and {now}
local told = ''
for i = 1, m do
  local key, queue, token = KEYS[i], KEYS[m + i], ARGV[5 + i]
  -- k kind, o owner, h attempts, t token, u until, n waiters until
  local f = call('HMGET', key, 'k', 'o', 'h', 't', 'u', 'n')
  local verdict, left = 'kind', 0
  if f[1] == KIND or not f[1] then
    local live, rest = f[5] and f[5] > now, f[3]
    local from, to
    if f[2] == owner and attempt ~= '' then
      from, to = string.find(rest, ' ' .. attempt .. ' ', 1, true)
    end

    if from then
      rest = string.sub(rest, 1, from) .. string.sub(rest, to + 1)
      verdict = live and 'released' or call('HGET', key, 'f') == f[4] and 'revoked' or 'expired'
      if rest == ' ' and live then
        live = false
        call('HDEL', key, 'o', 'h', 'u')
      else
        -- What is over keeps its owner, so that a copy of this gets the same answer.
        call('HDEL', key, '')
        call('HSET', key, 'h', rest)
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
        verdict = 'expired'
      elseif token < f[4] then
        verdict = 'taken'
      else
        verdict = 'gone'
      end
    end
    -- Who waits may need the key longer than the token does.
    local life = keep
    if f[6] and f[6] - now > keep + 0 then
      life = f[6] - now
    end
    if not live then
      call('PEXPIRE', key, life)
    elseif f[2] == owner then
      local _, spaces = string.gsub(rest, ' ', ' ')
      left = spaces - 1
    end

    if void ~= '' and void >= now then
      -- Copies of this attempt must not act any more.
      marks_add(key, call('HGET', key, 'v'), KIND, attempt, void, now)
      if not live then
        call('PEXPIRE', key, life)
      end
    end

    if queue then
      if address ~= '' then
        if string.sub(address, 1, 1) ~= '+' then
          call('ZREM', queue, address)
        elseif verdict == 'released' and not live then
          call('ZREM', queue, string.sub(address, 2))
        end
      end
      if f[6] and not live then
        told = wake(i, m, now) or ''
      end
    end
  end
  if m == 1 then
    return now .. ' ' .. verdict .. ' ' .. left .. told
  end
  reply[2 * i], reply[2 * i + 1] = verdict, left
end
return reply
