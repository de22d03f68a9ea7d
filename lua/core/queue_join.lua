-- uses core/queue
-- How a waiter joins the queue of core/queue.lua, which precedes this part. It does nothing by
-- itself.

-- By how much field n and the TTLs of Q and L outlast the registration that sets them, in ms, so
-- that few registrations have to set them.
local RESERVE = 100

-- Records the client of `member` as alive until `alive`. `flag` is the field n, `ends` the ms until
-- which K certainly lives, `other` another queue of the object with the same L. Returns the new
-- field n, and the client. A full server refuses the first write. O(log clients): ZADD, and once
-- in RESERVE ms HSET, PTTL, PEXPIRE.
local function queue_touch(k, q, l, now, member, alive, flag, ends, other)
  local client = queue_client(member)
  local new = redis.call('ZADD', l, alive, client)
  local ahead = flag and flag - alive
  if ahead and ahead > 0 and ahead <= RESERVE then
    if new == 1 then
      -- L may be new, although the field is not.
      redis.call('PEXPIRE', l, flag - now - 1)
    end
    return flag, client
  end
  local last = (alive + RESERVE) .. ''
  if flag and flag > last then
    -- Somebody stays longer, and need not have prolonged all keys.
    last = flag
  end
  redis.call('HSET', k, 'n', last)
  if not ends or ends < last then
    if redis.call('PTTL', k) < last - now then
      redis.call('PEXPIRE', k, last - now)
    end
  end
  -- When the field is over, the queues are gone.
  redis.call('PEXPIRE', l, last - now - 1)
  redis.call('PEXPIRE', q, last - now - 1)
  if other then
    redis.call('PEXPIRE', other, last - now - 1)
  end
  return last, client
end

-- Adds a waiter, whose client is recorded as alive, behind all others. Returns 1, or 0 if it is
-- there already, and the new field y. Q lives until `last`. O(log n): ZADD, ZCOUNT, ZCARD.
local function queue_enter(k, q, now, micros, member, last, called)
  if redis.call('ZADD', q, 'NX', micros, member) == 0 then
    return 0, called
  end
  if redis.call('ZCOUNT', q, micros, '+inf') > 1 then
    -- The clock was ahead when one of the others came.
    redis.call('ZREM', q, member)
    local newest = redis.call('ZRANGE', q, -1, -1, 'WITHSCORES')[2]
    redis.call('ZADD', q, string.format('%.0f', newest + 1), member)
  elseif redis.call('ZCARD', q) == 1 then
    redis.call('PEXPIRE', q, last - now - 1)
  end
  if queue_is_called(called, member) then
    -- It was notified and did not come in time: it joins at the end.
    redis.call('HDEL', k, 'y')
    called = false
  end
  return 1, called
end

-- Returns the ms until which any of those before the first waiter of `client` counts as alive, if
-- that waiter is among the first 16. The head is alive until `alive`. After that time, if nobody
-- has come, the client should look. Returns nil if that waiter is the head itself. Also nil if it
-- is not among the first 16, unless `now` is given and at most 16 clients are alive: then all of
-- them may look.
local function queue_before(q, l, client, alive, now)
  local members = redis.call('ZRANGE', q, 0, 15)
  local ahead, found = {}, false
  for i = 1, #members do
    local other = queue_client(members[i])
    if other == client then
      if i == 1 then
        return nil
      end
      found = true
      break
    end
    if i > 1 and not ahead[other] then
      ahead[other] = true
    end
  end
  if not found and (not now or redis.call('ZCOUNT', l, '(' .. now, '+inf') > 16) then
    return nil
  end
  for one in pairs(ahead) do
    local until_then = redis.call('ZSCORE', l, one)
    if until_then and until_then > alive then
      alive = until_then
    end
  end
  return alive
end

