-- uses core/publish
-- The message that makes a holder look at its hold. This part precedes scripts that change the hold
-- of another client.

-- Tells the client of `owner` that its hold of `key` has changed. `channels` is the beginning of
-- the channels of all clients, or '' for no message. Another number than 0 in the message would be
-- that of a waiter. O(1): PUBLISH. A lost message does no harm: the next renewal tells.
local function look_again(channels, owner, key)
  if channels ~= '' then
    publish('PUBLISH', channels .. string.match(owner, '^[^:]*'), key .. ' 0')
  end
end

