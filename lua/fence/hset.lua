-- uses fence/shared
-- Sets fields of the data, a hash. This script follows fence/shared.lua.
--
-- ARGV  6.. field, value, …  up to 1,000 pairs
-- Reply {now, 'written'}, or an answer of fence/shared.lua
-- Cost  that of fence/shared.lua, and HSET, O(fields).
call('HSET', KEYS[1], unpack(ARGV, 6))
remember(ops, op, micros, keep, micros)
return {now, 'written'}
