-- uses core/remember, fence/sample, fence/shared
-- Runs a body of the user on the data. This script follows the function `body`, which is made of
-- the user's text, and fence/shared.lua.
--
-- KEYS  4.. further keys of the body, in the same slot
-- ARGV  6.. arguments of the body
-- Reply {now, 'written', reply}  the reply of the body
--       {now, 'failed', error}   the body has failed; the mark has advanced, and its writes before
--                                the error stay
--       or an answer of fence/shared.lua
-- Cost  that of fence/shared.lua, and of the body.
--
-- An error must be an answer: an error reply of an unknown kind would be sent again. A body that
-- fails has run, so the operation is remembered before. A status line must be ASCII: a client may
-- close a connection whose status lines it cannot read.
remember(ops, op, micros, keep, micros)
local ran, reply = pcall(body, {KEYS[1], unpack(KEYS, 4)}, {unpack(ARGV, 6)})
if type(reply) == 'table' and reply.err then
  ran, reply = false, reply.err
elseif ran and type(reply) == 'table' and type(reply.ok) == 'string' and string.find(reply.ok, '[\128-\255]') then
  reply = reply.ok
end
if ran then
  return {now, 'written', reply}
elseif type(reply) ~= 'string' then
  reply = 'an error of type ' .. type(reply)
end
return {now, 'failed', reply}
