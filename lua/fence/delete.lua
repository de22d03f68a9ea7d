-- uses fence/shared
-- Deletes the data, and keeps the mark. This script follows fence/shared.lua.
--
-- Reply {now, 'written'}, or an answer of fence/shared.lua
-- Cost  that of fence/shared.lua, and DEL.
call('DEL', KEYS[1])
remember(ops, op, micros, keep, micros)
return {now, 'written'}
