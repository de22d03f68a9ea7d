-- The kind of the read-write lock, for scripts that do not follow rwlock/state.lua.
local KIND = 'rw:1'

