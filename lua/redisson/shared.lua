-- The layout of Redisson's RLock: a hash under the name itself, with one field, the owner
-- `<uuid>:<thread>`, and its hold count. This part precedes the scripts about it.
--
-- Beside it, clients of this family keep a hash S, which other programs do not read:
--   k  'redisson:1'
--   o  the owner whose attempts are listed
--   t  the serial of its hold, the time in µs at which it began; serials rise
--   h  ` <attempt> … `, the attempts that hold
--   z  the attempt that was released last
--   f  the serial of the hold that this family has ended by force
--   v  attempts that may not act, see core/attempts.lua
--
-- The owner's field in N does not tell which of its holds is there. S does: an acquisition that
-- finds no hold has a new serial. If S is lost while N lives, the hold counts as forgotten, and N
-- stays until its lease ends or its owner acquires again.

-- Returns the owner and the count; nothing if the name is free; `false` if the hash is no RLock.
-- O(1): HSCAN, which returns a small part of a large hash.
local function holder(key)
  local found = redis.call('HSCAN', key, '0')
  local fields = found[2]
  if found[1] ~= '0' or #fields > 2 then
    return false
  elseif not fields[1] then
    return nil
  elseif not string.find(fields[1], '^%x+%-%x+%-%x+%-%x+%-%x+:') or not string.find(fields[2], '^[1-9]%d*$') then
    return false
  end
  return fields[1], fields[2] + 0
end

-- Makes a key last `life` ms at least. O(1).
local function outlive(key, life)
  if redis.call('PTTL', key) < life + 0 then
    redis.call('PEXPIRE', key, life)
  end
end

