-- waits like fair
local KIND = 'fair_election:1'
local PARTS = 3
