-- uses core/begin, limit/shared, core/entries
-- entries 16 of 1 key, 7 arguments, behind 3
-- Takes passes of rate limiters, each entry by itself. This script follows limit/shared.lua and
-- core/entries.lua.
--
-- KEYS  for each entry K; see shared.lua
-- ARGV  1 act_before  last server time in ms at which this may act, the first of all limits
--       2 client  the part that all attempts have in common
--       3 keep    ms an attempt is remembered; the same for all
--       4..       for each entry:
--         attempt `:<n>`, to be appended to the client, never used twice. A client has one attempt
--                 on a key under way at a time
--         count   of tokens, and
--         period  in µs: the rate, without a common divisor
--         burst   tokens, 1 or more
--         cost    of one pass in tokens, 1 to burst
--         passes  1 to 64: so many are asked for, and as many are taken as may pass
--         wait    µs, 365 days at most. If none may pass now, one is taken ahead that counts
--                 within this time
-- Reply a text of one line per entry
--       <now> passed <n> <wait> <debt> <at> <mark> <born>
--                n = 0 to passes; wait = µs until they count, or until one may be taken if n = 0;
--                debt = µs until all tokens are paid; at = server time in µs at which they count;
--                mark and born are for a settlement, and '' in the answer to a copy
--       <now> void           this attempt has ended
--       <now> kind <kind>    the name is of another kind
--       -<code> <text>       the error of an entry, if there are others
--       {now, 'late'}        `act_before` has passed, for all entries
-- Cost  O(clients of the last `keep` ms): TIME, and per entry HMGET, HSET, PEXPIRE.
--
-- A refused attempt is recorded as well: a late copy must not take a pass that its caller does not
-- use. The first write of a pass is one that a full server refuses. A refusal needs no write.
local micros, now = began, sub(began, 1, 13)
local keep = ARGV[3] + 0
local limit = (now + keep) .. ''

-- Serves entry i. Returns its line.
local function serve(i)
  local own = 7 * i - 3
  local key, attempt = KEYS[i], ARGV[2] .. ARGV[own]
  local line, d, spent, copy, at, ahead = begin(key, attempt, limit, now)
  if line then
    return line
  end
  local count, period, burst, cost = ARGV[own + 1], ARGV[own + 2], ARGV[own + 3] + 0, ARGV[own + 4] + 0
  local clock, debt, part, _, _, back, turn, since, shift, born = read(d, micros, count, period)
  local passes, wait, mark = copy, due(debt, part, burst - cost, count, period), ''
  if since > clock then
    wait = max(wait, since - clock)
  end
  if not copy then
    passes, at = 0, clock
    if wait == 0 then
      passes = 1
      local most = min(ARGV[own + 5] + 0, math.floor(burst / cost))
      while passes < most and due(debt, part, burst - (passes + 1) * cost, count, period) == 0 do
        passes = passes + 1
      end
    elseif wait <= min(ARGV[own + 6] + 0, LONGEST) then
      passes, at = 1, format('%.0f', clock + wait)
      turn = at > turn and at or turn
    end
    debt, part = charge(debt, part, passes * cost, count + 0, period)
    mark = format('%.0f', clock + debt + shift)
    d = state(clock, debt, part, count, period, back, turn, since, shift, born)
    if passes > 0 then
      spent = with_passes(spent, attempt, passes, wait > 0 and '+' or '/', at)
      call('HSET', key, 'k', 'limit:1', 'd', d, 'v', spent)
    else
      redis.pcall('HSET', key, 'k', 'limit:1', 'd', d, 'v', spent)
    end
    call('PEXPIRE', key, life(debt, keep))
  else
    born = ''
    if copy > 0 then
      wait = ahead and max(at - clock, 0) or 0
    else
      at = clock
    end
  end
  at = back == '0' and at or format('%.0f', at - back)
  return now .. ' passed ' .. passes .. ' ' .. wait .. ' ' .. whole(debt, part) .. ' ' .. at .. ' ' .. mark .. ' ' .. born
end

return entries_serve(#KEYS, serve)
