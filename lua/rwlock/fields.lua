-- Reads the fields of a read-write lock that most scripts need, in the order that `look` in
-- rwlock/state.lua expects.
local function read_fields(key, owner)
  return redis.call('HMGET', key, 'k', 'o', 'u', 't', 'h', 'v', 'n', 'c', 'b', 'g', 'x', 'y', 'r' .. owner)
end

