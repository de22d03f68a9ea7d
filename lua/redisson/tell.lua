-- uses core/publish
-- Tells those who wait in Redisson that a name is free. This part follows core/publish.lua and
-- precedes every script that frees a name.

-- Returns the server's error if it refuses. Redisson waits for a message of PUBLISH or of SPUBLISH,
-- by its mode, and never for both. Servers before Redis 7.0 have no SPUBLISH, which is no refusal.
local function tell(channel)
  local refused = publish('PUBLISH', channel, '0')
  local sharded = publish('SPUBLISH', channel, '0')
  if sharded and string.find(sharded, 'nknown', 1, true) then
    sharded = nil
  end
  return refused or sharded
end

