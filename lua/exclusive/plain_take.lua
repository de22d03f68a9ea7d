-- uses core/attempts
-- The plain case of an acquisition, which most of them are. This part follows core/attempts.lua and
-- a line that sets KIND, precedes the scripts that take names, and does nothing by itself.

-- Takes a name that nobody holds or waits for, for an attempt that is not refused: its fields are
-- kind, owner, token, attempts that may not act, waiters. `micros` is the time in µs, `limit` the
-- last ms at which a copy of this request acts. Returns the token of the new hold, or nil without a
-- write if the name is not plain. O(1): HSET, PEXPIRE.
local function plain_take(key, kind, owner, token, spent, waiters, new_owner, attempt, limit, micros, ends, ttl)
  if owner or waiters or kind and kind ~= KIND then
    return nil
  end
  local refused
  spent, refused = spend(spent, attempt, limit, string.sub(micros, 1, 13))
  if refused then
    return nil
  end
  local attempts = ' ' .. attempt .. ' '
  local new = micros
  if token then
    if new <= token then
      local last = tonumber(token)
      if not last then
        return nil
      end
      new = string.format('%.0f', last + 1)
    end
    -- A token without an owner was released; z keeps it for a repeated release.
    redis.call('HSET', key, 'o', new_owner, 'h', attempts, 't', new, 'u', ends, 'v', spent, 'z', token)
  else
    redis.call('HSET', key, 'k', KIND, 'o', new_owner, 'h', attempts, 't', new, 'u', ends, 'v', spent)
  end
  redis.call('PEXPIRE', key, ttl)
  return new
end

