-- waits like reentrant
local KIND = 'election:1'
local PARTS = 2
