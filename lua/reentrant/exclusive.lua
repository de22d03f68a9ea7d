-- waits like reentrant
local KIND = 'lock:1'
local PARTS = 2
