-- uses core/attempts
-- What a rate limiter is on the server, and the functions that the scripts which change it share.
-- This part follows core/attempts.lua, precedes core/entries.lua and does nothing by itself.
--
-- K  hash
--    k kind
--    d `<t> <debt> <part> <count> <period> <back> <turn> <since> <shift> <born>`, by a clock in µs
--      that never goes back: the server's time + back
--      t       when it was written
--      debt    µs, from t on, in which the cost of all passes is paid, and part / count µs more;
--              0 <= part < count
--      count   tokens that are paid in `period` µs, without a common divisor
--      back    µs in total by which the server's clock was set back
--      turn    no pass that was taken ahead counts later, or 0 if there is none
--      since   when the rate begins, or 0: no later pass counts before
--      shift   µs in total that were given back, so by which the end of the debt has come nearer
--              without being paid
--      born    when K, or its last rate, was new. Never the same again
--    v the attempts that may not act any more, see core/attempts.lua. Behind the number of an
--      attempt that took passes stands `/<passes>/<at>`, or `/1+<at>` for a pass that was taken
--      ahead; at = the time by that clock at which they count
--
-- The mark of a pass is the end of its debt + shift. It means something while born is the same.
--
-- This is the generic cell rate algorithm (ITU-T I.371); t + debt is its theoretical arrival time.
-- No rounding adds up, since fractions of a µs are kept as whole parts. All numbers are below 2^53,
-- and those that are written as they are below 10^14: clients bound count × burst, and the time to
-- pay burst.
--
-- K expires when the debt is paid and no copy of an attempt can come any more.
local call = redis.call
local sub, match, format = string.sub, string.match, string.format
local fmod, max, min = math.fmod, math.max, math.min
local LONGEST = 31536000000000

-- Leaves `lines` and `rest` for core/entries.lua. All entries are served alike.
local lines, rest = {}, {}
for i = 1, #KEYS do
  rest[i] = i
end

-- Returns the time to pay `n` tokens: µs, and parts of 1 / count µs.
local function span(n, count, period)
  local left = fmod(period, count)
  if left == 0 then
    return n * (period / count), 0
  end
  local parts = n * left
  local part = fmod(parts, count)
  return n * ((period - left) / count) + (parts - part) / count, part
end

-- Adds the cost of `n` tokens to a debt. Returns the new one.
local function charge(debt, part, n, count, period)
  local more, parts = span(n, count, period)
  debt, part = debt + more, part + parts
  if part >= count then
    return debt + 1, part - count
  end
  return debt, part
end

-- Returns a debt in whole µs.
local function whole(debt, part)
  return part > 0 and debt + 1 or debt
end

-- Returns the µs until a debt is paid but for `room` tokens.
local function due(debt, part, room, count, period)
  local less, parts = span(room, count, period)
  return max(whole(debt - less, part - parts), 0)
end

-- Reads field d, for a rate, or for that of the field. A new rate begins when all passes count that
-- were taken ahead: as many tokens are owed then as before, but not for more than 365 days. Returns
-- the time by the clock of K, then debt, part and what else stands in d. All but debt, part and
-- shift are text.
local function read(d, micros, count, period)
  local t, debt, part, old_count, old_period, back, turn, since, shift, born =
    match(d or '', '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
  if not t then
    return micros, 0, 0, count, period, '0', '0', '0', 0, micros
  end
  local clock = back == '0' and micros or format('%.0f', micros + back)
  if clock < t then
    clock, back = t, format('%.0f', t - micros)
  end
  debt, part, shift = debt + 0, part + 0, shift + 0
  local passed = clock - t
  if passed > debt then
    debt, part = 0, 0
  else
    debt = debt - passed
  end
  if count and (count ~= old_count or period ~= old_period) then
    since = turn > since and turn or since
    local ahead = since > clock and min(since - clock, debt) or 0
    -- `turn` was rounded up by less than 1 µs, which pays nothing.
    local rest_of_it = debt - ahead + (ahead > 0 and 1 or 0)
    local owed = math.ceil((rest_of_it * old_count + part) * period / (old_period * count))
    debt, part = ahead + min(owed, LONGEST), 0
    shift, born = 0, clock > born and clock or format('%.0f', born + 1)
  end
  turn, since = turn > clock and turn or '0', since > clock and since or '0'
  return clock, debt, part, count or old_count, period or old_period, back, turn, since, shift, born
end

-- Returns field d.
local function state(clock, debt, part, count, period, back, turn, since, shift, born)
  local given = shift == 0 and '0' or format('%.0f', shift)
  return clock .. ' ' .. debt .. ' ' .. part .. ' ' .. count .. ' ' .. period .. ' ' .. back .. ' ' .. turn
    .. ' ' .. since .. ' ' .. given .. ' ' .. born
end

-- Returns the ms that K lasts: until the debt is paid, and `keep` at least.
local function life(debt, keep)
  return max(math.ceil(debt / 1000) + 1, keep)
end

-- Begins an attempt `<client>:<n>` on K. Returns
--   line   the answer, if the key is of another kind or the attempt has ended
--   d      the field d
--   spent  the new field v with the attempt, see `with_passes`
--   copy   the passes that an earlier copy took, if there was one
--   at     when they count, in µs, if there are any
--   ahead  whether they were taken ahead
local function begin(key, attempt, limit, now)
  local kind, d, v = unpack(call('HMGET', key, 'k', 'd', 'v'))
  if kind ~= 'limit:1' and kind then
    return now .. ' kind ' .. string.gsub(kind, '[%c ]', '?')
  end
  local spent, refused = spend(v, attempt, limit, now)
  if not refused then
    return nil, d, spent
  end
  local last, did = match(spent, '^%d+ ([^ /]+)(%S*)')
  if last ~= attempt then
    return now .. ' void'
  end
  local passes, turn, at = match(did, '^/(%d+)([/+])(%d+)$')
  return nil, d, spent, (passes or 0) + 0, at, turn == '+'
end

-- Returns the field v, `spent`, whose first attempt took passes that count at `at`.
local function with_passes(spent, attempt, passes, turn, at)
  local ends = 14 + #attempt
  return sub(spent, 1, ends) .. '/' .. passes .. turn .. at .. sub(spent, ends + 1)
end
