-- Publishes messages. This part precedes every script that publishes.

-- Publishes `message`. Returns the server's error if it refuses, such as for a missing right. Verb
-- and channel may come from a sorted set that others can write to, so this function sends messages
-- and nothing else.
local function publish(verb, channel, message)
  if verb == 'PUBLISH' or verb == 'SPUBLISH' then
    local reply = redis.pcall(verb, channel, message)
    return type(reply) == 'table' and reply.err or nil
  end
  return nil
end

