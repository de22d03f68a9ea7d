-- The counter of read holds and the time of the last waiter, for plain cases.

-- Returns true if the field c of a lock counts no read hold.
local function nobody_reads(c)
  return not c or string.sub(c, -2) == ' 0'
end

-- Returns the field n of a lock if somebody may wait, else nil or false. Without waiters field x is
-- stale.
local function may_wait(n, now)
  return n and n > now and n
end

