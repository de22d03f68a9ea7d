-- uses core/attempts
-- What a rate limiter is on the server, and the functions that the scripts which change it share.
-- This part follows core/attempts.lua, precedes core/entries.lua and does nothing by itself.
--
-- K  hash
--    k kind
--    d `<t> <debt> <part> <count> <period> <born> <ends>`, and if one of them is not 0, behind it
--      ` <back> <turn> <since> <shift>`; times by a clock in µs that never goes back, which is the
--      server's time + back
--      t       when it was written
--      debt    µs, from t on, in which the cost of all passes is paid, and part / count µs more;
--              0 <= part < count
--      count   tokens that are paid in `period` µs, without a common divisor
--      born    when K, or its last rate, was new. Never the same again
--      ends    server time in ms at which K expires, at the earliest
--      back    µs in total by which the server's clock was set back
--      turn    no pass that was taken ahead counts later, or 0 if there is none
--      since   when the rate begins, or 0: no later pass counts before
--      shift   µs in total that were given back, so by which the end of the debt has come nearer
--              without being paid
--    v the attempts that may not act any more, see core/attempts.lua. Behind the number of an
--      attempt that took passes stands `/<passes>/<at>`, or `/1+<at>` for a pass that was taken
--      ahead; at = the time by that clock at which they count
--    h `<born>` and ` <at>/<cost>/<mark>/<turn>` for each pass that was taken ahead and given back
--      while later ones were ahead. Its tokens stay taken, and the next waiter takes this turn
--
-- The mark of a pass is the end of its debt + shift. It means something while born is the same. Two
-- numbers make it, from + left, since a conversion of their sum to text costs as much as a command.
--
-- This is the generic cell rate algorithm (ITU-T I.371); t + debt is its theoretical arrival time.
-- No rounding adds up, since fractions of a µs are kept as whole parts. All numbers are below 2^53,
-- and those that are written as they are below 10^14: clients bound count × burst, and the time to
-- pay burst. Most calls need few conversions between numbers and text, which cost as much as a
-- command.
--
-- K expires when the debt is paid and no copy of an attempt can come any more, or up to SLACK ms
-- later. So not each call has to set the time.
local call = redis.call
local sub, match, format = string.sub, string.match, string.format
local fmod, max, min, ceil = math.fmod, math.max, math.min, math.ceil
local LONGEST, SLACK, MOST_TURNS = 31536000000000, 1000, 16
local TEXT = {'1'}
TEXT[0] = '0'
local micros, now = began, sub(began, 1, 13)
local client, keep = ARGV[2], ARGV[3] + 0
local began_at, limit = micros + 0, (now + keep) .. ''
-- The text before the number of an attempt, and the field v of a K that no other client uses.
local mine = ' ' .. client
local alone = '^(%d+) ' .. client .. '(:%d+)[^ ]*$'

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

-- Adds two times, both in µs and parts of 1 / count µs.
local function add(debt, part, more, parts, count)
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

-- Reads field d, for a rate, or for that of the field. A new rate begins when all passes count that
-- were taken ahead, and as many tokens are owed then as before. If these take longer than 365 days
-- to be paid by the new rate, the debt is `long`, and the old rate has to stay. Returns the time by
-- the clock of K, then debt, part and what else stands in d, and `long`. All but debt, part, shift
-- and long are text.
local function read(d, count, period)
  local t, debt, part, old_count, old_period, born, ends, more =
    match(d or '', '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)(.*)$')
  if not t then
    return micros, 0, 0, count, period, micros, '0', '0', '0', '0', 0
  end
  local clock, back, turn, since, shift = micros, '0', '0', '0', 0
  if more ~= '' then
    back, turn, since, shift = match(more, '^ (%d+) (%d+) (%d+) (%d+)$')
    clock, shift = back == '0' and micros or format('%.0f', micros + back), shift + 0
  end
  local passed = (clock == micros and began_at or clock) - t
  if passed < 0 then
    clock, back = t, format('%.0f', t - micros)
    passed = 0
  end
  debt, part = debt - passed, part + 0
  if debt < 0 then
    debt, part = 0, 0
  end
  local long = false
  if count and (count ~= old_count or period ~= old_period) then
    -- `turn` was rounded up by less than 1 µs, which pays nothing, unless it is as `since` was.
    local rounded = turn ~= since and 1 or 0
    since = turn
    local ahead = since > clock and min(since - clock, debt) or 0
    local rest_of_it = debt - ahead + (ahead > 0 and rounded or 0)
    local owed = ceil((rest_of_it * old_count + part) * period / (old_period * count))
    long = owed > LONGEST
    debt, part = ahead + min(owed, LONGEST), 0
    shift, born = 0, clock > born and clock or format('%.0f', born + 1)
  end
  if more ~= '' then
    turn, since = turn > clock and turn or '0', since > clock and since or '0'
  end
  return clock, debt, part, count or old_count, period or old_period, born, ends, back, turn, since, shift, long
end

-- Writes K, whose field d was `old`. `spent` is the new field v. Returns the debt as text. If the
-- write is `optional`, a full server need not make it. Any other server that takes no writes
-- refuses all of them.
local function write(optional, key, old, spent, clock, debt, part, count, period, born, ends, back, turn, since, shift)
  local owed, last, expires = debt .. '', now + max(ceil(debt / 1000) + 1, keep), ends + 0
  local moves = optional or last > expires or last + SLACK < expires
  local d = clock .. ' ' .. owed .. ' ' .. (TEXT[part] or part) .. ' ' .. count .. ' ' .. period .. ' ' .. born .. ' '
    .. (moves and last + SLACK or ends)
  if back ~= '0' or turn ~= '0' or since ~= '0' or shift ~= 0 then
    d = d .. ' ' .. back .. ' ' .. turn .. ' ' .. since .. ' ' .. format('%.0f', shift)
  end
  if optional then
    redis.pcall('HSET', key, 'd', d, 'v', spent)
  elseif old then
    call('HSET', key, 'd', d, 'v', spent)
  else
    call('HSET', key, 'd', d, 'v', spent, 'k', 'limit:1')
  end
  if moves then
    call('PEXPIRE', key, last + SLACK - now)
  end
  return owed
end

-- Returns the turns that were given back and are still to come: lists of at, cost, mark and turn.
local function free_turns(key, born, clock)
  local turns = {}
  local of, list = match(call('HGET', key, 'h') or '', '^(%d+)(.*)$')
  if of == born then
    for at, cost, mark, turn in string.gmatch(list, ' (%d+)/(%d+)/(%d+)/(%d+)') do
      if at >= clock then
        turns[#turns + 1] = {at, cost, mark, turn}
      end
    end
  end
  return turns
end

-- Writes the last ones of these turns.
local function keep_turns(key, born, turns)
  local list = born
  for i = max(#turns - MOST_TURNS, 0) + 1, #turns do
    list = list .. ' ' .. table.concat(turns[i], '/')
  end
  if list == born then
    call('HDEL', key, 'h')
  else
    call('HSET', key, 'h', list)
  end
end

-- Begins an attempt `:<n>` of the client on K. Returns
--   line   the answer, if the key is of another kind or the attempt has ended
--   d      the field d
--   spent  the new field v with the attempt, up to where stands what it did
--   others the rest of that field
--   copy   the passes that an earlier copy took, if there was one
--   at     when they count, in µs, if there are any
--   ahead  whether they were taken ahead
local function begin(key, attempt)
  local d, v, kind = unpack(call('HMGET', key, 'd', 'v', 'k'))
  if kind ~= 'limit:1' and kind then
    return now .. ' kind ' .. string.gsub(kind, '[%c ]', '?')
  end
  local ends, last = match(v or '', alone)
  if last and (#last < #attempt or #last == #attempt and last < attempt) then
    return nil, d, (ends > limit and ends or limit) .. mine .. attempt, ''
  end
  attempt = client .. attempt
  local spent, refused = spend(v, attempt, limit, now)
  if not refused then
    local first = 14 + #attempt
    return nil, d, sub(spent, 1, first), sub(spent, first + 1)
  end
  local same, did = match(spent, '^%d+ ([^ /]+)(%S*)')
  if same ~= attempt then
    return now .. ' void'
  end
  local passes, turn, at = match(did, '^/(%d+)([/+])(%d+)$')
  return nil, d, spent, '', (passes or 0) + 0, at, turn == '+'
end
