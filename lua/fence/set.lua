-- uses fence/shared
-- Sets the data to a string. This script follows fence/shared.lua.
--
-- ARGV  6 value
--       7 ttl     ms after which the data expires, or '' for never
-- Reply {now, 'written'}, or an answer of fence/shared.lua
-- Cost  that of fence/shared.lua, and SET.
if ARGV[7] ~= '' then
  call('SET', KEYS[1], ARGV[6], 'PX', ARGV[7])
else
  call('SET', KEYS[1], ARGV[6])
end
remember(ops, op, micros, keep, micros)
return {now, 'written'}
