-- How a waiter joins the queue of core/queue.lua, which precedes this part. It does nothing by
-- itself.

-- Records the client of `member` as alive until `alive`. `flag` is the field n, `ends` the ms until
-- which K certainly lives. A full server refuses the first write. O(log clients).
local function queue_touch(k, q, l, now, member, alive, flag, ends)
  local last = alive
  if flag and flag > alive then
    last = flag
  end
  redis.call('HSET', k, 'n', last)
  if not ends or ends < last then
    if redis.call('PTTL', k) < last - now then
      redis.call('PEXPIRE', k, last - now)
    end
  end
  redis.call('ZADD', l, alive, queue_client(member))
  redis.call('PEXPIRE', l, last - now)
  redis.call('PEXPIRE', q, last - now)
  return last
end

-- Adds a waiter, whose client is recorded as alive, behind all others. Returns 1, or 0 if it is
-- there already, and the new field y. Q lives until `last`. O(log n).
local function queue_enter(k, q, now, micros, member, last, called)
  if redis.call('ZSCORE', q, member) then
    return 0, called
  end
  local newest = redis.call('ZRANGE', q, -1, -1, 'WITHSCORES')[2]
  if newest and micros <= newest then
    micros = string.format('%.0f', newest + 1)
  end
  redis.call('ZADD', q, micros, member)
  if not newest then
    redis.call('PEXPIRE', q, last - now)
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

