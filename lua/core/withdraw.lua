-- Entries of one client's waiters that no longer wait. A server may have them after a failover, a
-- restart, or a forgotten undo. This part follows the parts of a kind and precedes its
-- withdraw.lua. It does nothing by itself.

-- Number of members of a queue that one script examines.
local LOOKED_AT = 1024

-- Returns the number of `member` if it is a waiter of `client`, else nil.
local function withdraw_number(member, client)
  local channel, number = string.match(member, '^%u+ (%S+) (%d+)')
  if channel == client or channel and string.sub(channel, 1, #client + 1) == client .. '{' then
    return number
  end
  return nil
end

-- Appends the numbers of the waiters of `client` to `found`, among the first 1024 of the queue.
-- O(log n + 1024).
local function withdraw_list(queue, client, found)
  local members = redis.call('ZRANGE', queue, 0, LOOKED_AT - 1)
  for i = 1, #members do
    local number = withdraw_number(members[i], client)
    if number then
      found[#found + 1] = number
    end
  end
end

-- Removes the waiters of `client` whose number is in the set `gone`, among the first 1024 of the
-- queue. O(log n + 1024).
local function withdraw_strike(queue, client, gone)
  local members = redis.call('ZRANGE', queue, 0, LOOKED_AT - 1)
  for i = 1, #members do
    local number = withdraw_number(members[i], client)
    if number and gone[number] then
      redis.call('ZREM', queue, members[i])
    end
  end
end

-- Returns the arguments from `from` on as a set.
local function withdraw_set(from)
  local gone = {}
  for i = from, #ARGV do
    gone[ARGV[i]] = true
  end
  return gone
end

