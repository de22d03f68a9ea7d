-- Grants of a name with one owner by a script that frees it: a release, a forced end, a withdrawal.
-- This part follows core/publish.lua and precedes every such script. It does nothing by itself.
--
-- Q  a member may end with an order, `<verb> <channel> <n> <owner> g<lease>.<ttl>.<nonce>`: its
--    waiter accepts a hold that a release writes for it. lease and ttl are in ms; nonce is 16
--    hexadecimal digits
-- K  p, `<token> <abandoned> <n>`: the hold with this token was granted to attempt n by such an
--    order, and its holder has confirmed nothing yet. abandoned = 1 if the holder before never
--    released

-- Longest lease of a hold that its holder has not confirmed, in ms.
local UNCONFIRMED = 5000

-- Returns the number of the attempt that holds without having confirmed it, nil if there is none.
-- `p` is the field, `token` that of the hold.
local function give_unconfirmed(p, token)
  if p and string.sub(p, 1, 16) == token then
    return string.sub(p, 20)
  end
  return nil
end

-- Returns the number of the attempt of `holder` that holds without having confirmed it, if it is of
-- the client of `asker`: its message may have been lost. Otherwise ''. `holder` and `asker` are
-- owners.
local function give_unheard(p, token, holder, asker)
  local n = give_unconfirmed(p, token)
  if n and string.match(holder, '^[^:]*') == string.match(asker, '^[^:]*') then
    return n + 0
  end
  return ''
end

-- Gives the name `key` to the waiter `head` of `queue`, if it has an order, and tells it. Returns
-- attempt and grant for the reply; nil if it has no order or the server refuses the message. The
-- name is free; `token` is the last one, `clean` is true if its hold was released, `abandoned` is 1
-- if that holder never released. Field `died` keeps the token of a hold after such a one. Begins
-- with a write that a full server accepts. O(log waiters): HDEL, PUBLISH, HSET, PTTL, PEXPIRE,
-- ZREM.
local function give(key, queue, head, kind, now, micros, token, clean, abandoned, died)
  local verb, channel, n, owner, lease, ttl, nonce =
    string.match(head, '^(%u+) (%S+) (%d+) (%d+) g(%d+)%.(%d+)%.(%x+)$')
  local client = nonce and string.match(string.match(channel, '^[^{]*'), ':([^:]+)$')
  if not client or verb == 'NONE' or #n > 15 or #owner > 15 or #lease > 15 or #ttl > 15 then
    return nil
  end
  local new = micros
  if token and new <= token then
    new = string.format('%.0f', token + 1)
  end
  local span = lease + 0
  if span > UNCONFIRMED then
    span = UNCONFIRMED
  end
  local ends = (now + span) .. ''
  local grant = 'g' .. nonce .. '.' .. new .. '.' .. ends .. '.' .. abandoned
  -- A server that takes no writes has to refuse before the message is out.
  redis.call('HDEL', key, 'y')
  if publish(verb, channel, key .. ' ' .. n .. ' ' .. grant) then
    return nil
  end
  local attempt = client .. ':' .. n
  redis.call('HSET', key, 'k', kind, 'o', client .. ':' .. owner, 'h', ' ' .. attempt .. ' ',
    't', new, 'u', ends, 'p', new .. ' ' .. abandoned .. ' ' .. n)
  if clean and token then
    redis.call('HSET', key, 'z', token)
  elseif abandoned == 1 then
    redis.call('HSET', key, died, new)
  end
  local life = span + ttl - lease
  if redis.call('PTTL', key) < life then
    redis.call('PEXPIRE', key, life)
  end
  redis.call('ZREM', queue, head)
  return attempt, grant
end

