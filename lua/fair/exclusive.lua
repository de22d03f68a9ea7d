-- uses fair/kind
-- waits like fair
local PARTS = 3
