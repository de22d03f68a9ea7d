-- uses fence/shared
-- Advances the mark and leaves the data as it is. This script follows fence/shared.lua.
--
-- Reply {now, 'written'}, or an answer of fence/shared.lua
-- Cost  that of fence/shared.lua.
remember(ops, op, micros, keep, micros)
return {now, 'written'}
