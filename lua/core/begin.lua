-- The beginning of scripts that must not act late, and of which most calls are plain: reads the
-- server's time, and refuses a request that comes too late. It precedes the functions of the other
-- cases, since the server executes their definitions in every call.
--
-- ARGV  1 act_before  last server time in ms at which the script may act
-- Reply {now, 'late'}   `act_before` has passed
--       an error `CLOCK …` if the server's clock cannot be compared as text
--
-- Leaves `began`, the time in µs with 16 digits. Its first 13 digits are ms. Times are compared as
-- text of equal length, which saves conversions. `..` may be used on ms, and not on µs, which have
-- too many digits.
local time = redis.call('TIME')
if #time[1] ~= 10 then
  return redis.error_reply('CLOCK the clock of this server is not between 2001 and 2286')
end
local began = time[1] .. string.sub('00000' .. time[2], -6)
if string.sub(began, 1, 13) > ARGV[1] or #ARGV[1] ~= 13 then
  return {string.sub(began, 1, 13), 'late'}
end

