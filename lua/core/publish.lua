-- Publishes messages. This part precedes every script that publishes.

-- Publishes `message`. Verb and channel may come from a sorted set that others can write to, so
-- this function sends messages and nothing else.
local function publish(verb, channel, message)
  if verb == 'PUBLISH' or verb == 'SPUBLISH' then
    redis.pcall(verb, channel, message)
  end
end

