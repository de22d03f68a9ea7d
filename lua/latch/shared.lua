-- uses core/remember
-- What a latch is on the server, and the functions that the scripts which change it share. This
-- part follows core/remember.lua, precedes them and does nothing by itself.
--
-- K  hash
--    k kind
--    g generation, in µs and rising
--    c count left, '0' once it is open; absent once it was deleted
--    n count it was set to
--    e ms at which it expires, or ''
--    t when an operation last ran, in µs and never falling; no two generations share one
--    r ` <g>-<t> …`, the last 64 generations before the present one that opened, and when an
--      operation last ran in each
-- O  sorted set, operation -> µs until which it is remembered; `<op>!` was refused
--
-- A generation counts as open only if K says so: the present one by c, an earlier one by r. All
-- others count as deleted, since the server may have forgotten them. Numbers of 16 digits pass
-- through `..` only as text.
local call = redis.call

-- Remembers an operation on the present generation, or its refusal if there is none. Returns the
-- time at which it ran, or nil if it is refused. `count` is the field c, and `last` the field t.
local function run(ops, op, keep, micros, count, last)
  local stamp = micros
  if last and last > stamp then
    stamp = last
  end
  if not count then
    remember(ops, op .. '!', stamp, keep, micros)
    return nil
  end
  remember(ops, op, stamp, keep, micros)
  return stamp
end

-- Appends a generation that has opened to `r`, the field r. One entry has 34 characters.
local function with_opened(r, g, t)
  return string.sub((r or ' ') .. g .. '-' .. t .. ' ', -34 * 64 - 1)
end

