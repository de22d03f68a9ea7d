-- uses core/publish, core/attempts
-- Grants of a name with one owner by a script that frees it: a release, a forced end, a withdrawal.
-- This part follows core/publish.lua and core/attempts.lua, and precedes every such script. It does
-- nothing by itself.
--
-- Q  a member may end with an order, `<verb> <channel> <n> <owner> g<lease>.<ttl>.<nonce>`: its
--    waiter accepts a hold that a release writes for it. lease and ttl are in ms; nonce is 16
--    hexadecimal digits
-- K  p, `<token> <abandoned> <n>`: the hold with this token was granted to attempt n by such an
--    order, and its holder has confirmed nothing yet. abandoned = 1 if the holder before never
--    released

-- Longest lease of a hold that its holder has not confirmed, in ms.
local UNCONFIRMED = 5000

-- Gives the name `key`, which is free, to the waiter `head` of `queue`, if it has an order, and
-- tells it. Returns attempt and grant for the reply; nil if it has no order or the server refuses
-- the message. `before` is about the hold that has ended, with the fields
--
--   now, micros  the time
--   token        its token, the last one; nil or false if there was none
--   clean        true if it was released
--   abandoned    1 if its holder never released, else 0. Field `died` keeps the token of the hold
--                after such a one
--   called       field y
--   spent        field v, or nil if the caller has not read it
--   client       the client that gets the reply, if it passes a grant on to its own waiters: they
--                get no message
--   life         ms that K has to last at least, or nil to leave that to its TTL
--   written      true if the script has written before, and a full server has accepted that
--   given        set to true by a grant, which has set the TTL of K
--
-- Begins with a write that a full server accepts, so a server that takes no writes refuses before
-- the message is out. O(log waiters): ZREM, HGET, HSET, PEXPIRE, and HDEL, PUBLISH or PTTL.
local function give(key, queue, head, kind, died, before)
  local verb, channel, n, owner, lease, ttl, nonce =
    string.match(head, '^(%u+) (%S+) (%d+) (%d+) g(%d+)%.(%d+)%.(%x+)$')
  local client = nonce and string.match(channel, '^[^{]*:([^:{]+)')
  if not client or verb == 'NONE' or #n > 15 or #owner > 15 or #lease > 15 or #ttl > 15 then
    return nil
  end
  local token, new, abandoned = before.token, before.micros, before.abandoned
  if token and new <= token then
    new = string.format('%.0f', token + 1)
  end
  local span = lease + 0
  if span > UNCONFIRMED then
    span = UNCONFIRMED
  end
  local ends = (before.now + span) .. ''
  local grant = 'g' .. nonce .. '.' .. new .. '.' .. ends .. '.' .. abandoned
  if client ~= before.client then
    if not before.written then
      redis.call('HDEL', key, '')
    end
    if publish(verb, channel, key .. ' ' .. n .. ' ' .. grant) then
      return nil
    end
  end
  redis.call('ZREM', queue, head)
  if before.called then
    redis.call('HDEL', key, 'y')
  end
  local attempt = client .. ':' .. n
  -- No request was sent later than now.
  local v = before.spent
  if v == nil then
    v = redis.call('HGET', key, 'v')
  end
  local spent = spend(v, attempt, (before.now + REACH) .. '', before.now)
  local write = {'k', kind, 'o', client .. ':' .. owner, 'h', ' ' .. attempt .. ' ', 't', new,
    'u', ends, 'p', new .. ' ' .. abandoned .. ' ' .. n, 'v', spent}
  if before.clean and token then
    write[15], write[16] = 'z', token
  elseif abandoned == 1 then
    write[15], write[16] = died, new
  end
  redis.call('HSET', key, unpack(write))
  local life = span + ttl - lease
  local least = before.life or redis.call('PTTL', key)
  if least + 0 > life then
    life = least
  end
  if before.life or least < life then
    redis.call('PEXPIRE', key, life)
  end
  before.given = true
  return attempt, grant
end
