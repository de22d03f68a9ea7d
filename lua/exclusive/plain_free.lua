-- The plain case of a release. This part precedes the scripts that release names, and does nothing
-- by itself.

-- Ends a hold that lasts, has this token and only this attempt, and that nobody waits for. The
-- fields h, t, u, n of the name are held, current, until_ms, waiters; `attempts` is ` <attempt> `.
-- An attempt is never used again, so it alone tells the kind and the owner. Returns false without
-- a write if the name is not plain. O(1): HDEL, and PEXPIRE if the lease would have outlasted
-- `keep`, that is now + keep_ms.
local function plain_free(key, held, current, until_ms, waiters, attempts, token, now, keep, keep_ms)
  if current ~= token or held ~= attempts or waiters or not until_ms or until_ms <= now then
    return false
  end
  redis.call('HDEL', key, 'o', 'h', 'u')
  if until_ms > keep then
    redis.call('PEXPIRE', key, keep_ms)
  end
  return true
end

