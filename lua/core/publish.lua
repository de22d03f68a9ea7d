-- Publishes messages. Goes in front of every script that does.

-- Publishes `message`. Verb and channel may come from a sorted set, which others may write to: nothing but a message is ever sent.
local function publish(verb, channel, message)
  if verb == 'PUBLISH' or verb == 'SPUBLISH' then
    redis.pcall(verb, channel, message)
  end
end

