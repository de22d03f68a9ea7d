-- The beginning of scripts that take several objects, each for itself, and must not act late. It is
-- core/act_before.lua with another reply. This part stands behind all functions, directly before
-- such a script.
--
-- ARGV  1 act_before  last server time in ms at which the script may act
-- Reply an empty text if `act_before` has passed: all callers ask again by themselves
--       an error `CLOCK …` if the server's clock cannot be compared as text
local time = redis.call('TIME')
if #time[1] ~= 10 then
  return redis.error_reply('CLOCK the clock of this server is not between 2001 and 2286')
end
local micros = time[1] .. string.sub('00000' .. time[2], -6)
local now = string.sub(micros, 1, 13)
if now > ARGV[1] or #ARGV[1] ~= 13 then
  return ''
end

