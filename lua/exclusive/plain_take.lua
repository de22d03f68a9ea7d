-- The plain case of an acquisition, which most of them are. This part follows a line that sets
-- KIND, precedes the scripts that take names, and does nothing by itself.

-- Takes a name that nobody holds or waits for, and on which no attempt was undone: its fields are
-- kind, owner, token, voids, waiters. `micros` is the time in µs. Returns the token of the new
-- hold, or nil without a write if the name is not plain. `attempts` is ` <attempt> `. O(1): HSET,
-- PEXPIRE.
local function plain_take(key, kind, owner, token, voids, waiters, new_owner, attempts, micros, ends, ttl)
  if owner or voids or waiters or kind and kind ~= KIND then
    return nil
  end
  local new = micros
  if token then
    if new <= token then
      new = string.format('%.0f', token + 1)
    end
    -- A token without an owner was released; z keeps it for a repeated release.
    redis.call('HSET', key, 'o', new_owner, 'h', attempts, 't', new, 'u', ends, 'z', token)
  else
    redis.call('HSET', key, 'k', KIND, 'o', new_owner, 'h', attempts, 't', new, 'u', ends)
  end
  redis.call('PEXPIRE', key, ttl)
  return new
end

