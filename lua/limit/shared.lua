-- uses core/attempts
-- What a rate limiter is on the server, and the functions that the scripts which change it share.
-- This part follows core/attempts.lua, precedes core/entries.lua and does nothing by itself.
--
-- K  hash
--    k kind
--    d `<t> <debt> <part> <count> <period> <shift> <turn>`
--      t       when it was written, in µs
--      debt    µs, from t on, in which the cost of all passes is paid, and part / count µs more;
--              0 <= part < count
--      count   tokens that are paid in `period` µs, without a common divisor
--      shift   µs in total by which the end of the debt has come nearer without being paid
--      turn    the last time, in µs, at which a pass that was taken ahead counts, or 0
--    v the attempts that may not act any more, see core/attempts.lua. Behind the number of an
--      attempt stand two digits: how many passes it took
--
-- This is the generic cell rate algorithm (ITU-T I.371); t + debt is its theoretical arrival time.
-- No rounding adds up, since fractions of a µs are kept as whole parts. All numbers are below 2^53:
-- clients bound count × burst, and the time to pay burst.
--
-- K expires when the debt is paid and no copy of an attempt can come any more.
local call = redis.call
local LONGEST = 31536000000000

-- Leaves `lines` and `rest` for core/entries.lua. All entries are served alike.
local lines, rest = {}, {}
for i = 1, #KEYS do
  rest[i] = i
end

-- Returns the time to pay `n` tokens: µs, and parts of 1 / count µs.
local function span(n, count, period)
  local left = math.fmod(period, count)
  local parts = n * left
  local part = math.fmod(parts, count)
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
  return debt + (part > 0 and 1 or 0)
end

-- Reads field d at `micros`, for a rate, or for that of the field. A clock that was set back leaves
-- the debt as it was. If the rate has changed, as many tokens are owed as before, at the time at
-- which all passes count, but not for more than 365 days. Returns debt, part, shift, turn, and the
-- rate of the field.
local function read(d, micros, count, period)
  local t, debt, part, old_count, old_period, shift, turn =
    string.match(d or '', '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
  if not t then
    return 0, 0, 0, '0'
  end
  debt, part, shift = debt + 0, part + 0, shift + 0
  old_count, old_period = old_count + 0, old_period + 0
  local passed = micros - t
  if passed < 0 then
    shift = shift - passed
  elseif passed > debt then
    debt, part = 0, 0
  else
    debt = debt - passed
  end
  if count and (count ~= old_count or period ~= old_period) then
    -- No mark of an earlier pass means anything any more.
    shift = shift + debt
    local ahead = turn > micros and math.min(turn - micros, debt) or 0
    -- `turn` was rounded up by less than 1 µs, which pays nothing.
    local rest_of_it = debt - ahead + (ahead > 0 and 1 or 0)
    local owed = math.ceil((rest_of_it * old_count + part) * period / (old_period * count))
    debt, part = ahead + math.min(owed, LONGEST), 0
  end
  return debt, part, shift, turn > micros and turn or '0', old_count, old_period
end

-- Returns field d.
local function state(micros, debt, part, count, period, shift, turn)
  return table.concat({micros, debt, part, count, period, string.format('%.0f', shift), turn}, ' ')
end

-- Returns the ms that K lasts: until the debt is paid, and `keep` at least.
local function life(debt, keep)
  return math.max(math.ceil(debt / 1000) + 1, keep)
end

-- Begins an attempt `<client>:<n>` on K. Returns a table with
--   line   the answer, if the key is of another kind or the attempt has ended
--   copy   the passes that an earlier copy took, and the ms `at` which it ran, if there was one
--   d      the field d
--   spent  the new field v with the attempt, see `with_passes`
local function begin(key, attempt, limit, keep, now)
  local kind, d, v = unpack(call('HMGET', key, 'k', 'd', 'v'))
  if kind ~= 'limit:1' and kind then
    return {line = now .. ' kind ' .. string.gsub(kind, '[%c ]', '?')}
  end
  local spent, refused = spend(v, attempt .. '00', limit, now)
  if not refused then
    return {d = d, spent = spent}
  end
  -- The last attempt of the client stands first.
  local last = string.match(spent, '^%d+ (%S+)')
  if string.sub(last, 1, -3) ~= attempt then
    return {line = now .. ' void'}
  end
  local from = string.find(v, ' ' .. last, 14, true)
  return {copy = string.sub(last, -2) + 0, at = string.sub(v, from - 13, from - 1) - keep, d = d}
end

-- Returns the field v, `spent`, whose first attempt took so many passes.
local function with_passes(spent, attempt, passes)
  local ends = 14 + #attempt
  return string.sub(spent, 1, ends) .. string.sub('0' .. passes, -2) .. string.sub(spent, ends + 3)
end

