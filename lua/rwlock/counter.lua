-- The counter of read holds, for scripts that do not follow rwlock/state.lua.

-- Returns true if the field c of a lock counts no read hold.
local function nobody_reads(c)
  return not c or string.sub(c, -2) == ' 0'
end

