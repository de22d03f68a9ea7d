-- uses pool/release_plain, core/entries, pool/shared, core/end_attempt
-- entries 16 of 4 keys, 6 arguments, behind 3
-- Takes permits of pools back, for attempts each by itself: of each hold all but those that it may
-- keep. Release, undo of an abandoned acquire, and leave of a waiter are the same operation. This
-- script follows pool/release_plain.lua.
--
-- KEYS  for each entry K, D, Q, L of its pool; all but the first optional (a slot on the move),
--       then nobody is notified; see shared.lua
-- ARGV  1 client  the part that all attempts have in common
--       2 kind    of the pools
--       3 keep    ms a key without a size is kept
--       4..       for each entry:
--         attempt   `:<n>`, to be appended to the client, whose holds these are, and whose acquire
--                   this undoes; '' if the sender is another client, or passes no grants on to its
--                   own waiters
--         void      last ms at which a request of the acquire may act; '' for a hold that was
--                   delivered after an answer to each request
--         waiter    the queue's member to remove, or ''
--         left      permits that each hold may keep
--         forgotten permits of each hold that are gone for good, since it began; the size falls by
--                   them, once
--         holds     with spaces between them, each `:<n>` or `:<n>:<i>`, to be appended to the
--                   client; of another client the whole name. A call has 1000 at most
-- Reply a text of one line per entry, `<now> <verdict> <left> …`, two items per hold; left =
--       permits that it has
--       released  this call took permits back
--       already   the hold had no more than it may keep, or its client has withdrawn it
--       expired   its lease was over, and all of it is back
--       gone      the hold is unknown
--       kind      the name is of another kind
--       -<code> <text>   the error of an entry, if there are others
--       Then three items for each waiter that got permits: `granted`, its attempt, and
--       `g<nonce>.<number>.<ends>.0`. Of several entries of a pool, the last one tells of all
--       grants. Waiters of the client get no message if the entry has an attempt
--       and no other one is about its pool. Otherwise all get one, and `sent` precedes the grants.
--       To a repeated release of an attempt two items for each grant to this client that nobody has
--       confirmed, among 16 holds: `holds`, its attempt
-- Cost  O(holds · log n): TIME, and for each pool HMGET, 2 HDEL, HSET, ZREM; of waiters + ZREM;
--       with waiters + ZRANGE, ZSCORE, and a PUBLISH for each notified one, 257 at most; for each
--       that gets permits also HGET, and once ZADD; with `void` + HDEL, HSET; of a repeated one +
--       ZRANGE, HMGET of 16 holds.
--
-- Needs no `act_before`: a hold's name is never used again, the permits that it may keep only fall,
-- and the forgotten ones only rise. These requests may come late, repeatedly, and in any order.
-- The entries of a pool give back what they have, in turn, before any waiter is served. So waiters
-- of one client that get messages come together, as do their next requests. Begins with HDEL, which
-- a full server accepts.
local call = redis.call
local micros, now = began, string.sub(began, 1, 13)
local client, kind, keep = ARGV[1], ARGV[2], ARGV[3]

-- Serves the entries `pool` of one pool, and sets their lines. Returns the error of its reading, if
-- that failed.
local function serve(pool)
  local at = (pool[1] - 1) * width + 1
  local k, d, q, l = KEYS[at], nil, nil, nil
  if width > 1 then
    d, q, l = KEYS[at + 1], KEYS[at + 2], KEYS[at + 3]
  end
  local f, names = pool.read, pool.names
  if f.err then
    return f
  end
  local out, size, field = tonumber(f[3] or 0), tonumber(f[2] or 0), 9
  local same = not f[1] or f[1] == kind
  -- What the holds are now, by field; false for those that are over.
  local now_is, changes = {}, {}
  local changed, sizes, waiters = false, false, {}
  -- The entries that may be copies.
  local repeated = {}
  for _, i in ipairs(pool) do
    local own = 6 * i - 2
    local keeps, forgotten, line = tonumber(ARGV[own + 3]), tonumber(ARGV[own + 4]), now
    for _ in string.gmatch(ARGV[own + 5], '%S+') do
      field = field + 1
      local name, verdict, left = names[field], 'gone', 0
      local hold = f[field]
      if now_is[name] ~= nil then
        hold = now_is[name]
      end
      if not same then
        verdict = 'kind'
      elseif hold then
        local ends, has, lost = string.match(hold, '^(%d+) (%d+) (%d+)')
        has, lost = tonumber(has), tonumber(lost)
        verdict, left = 'already', has
        if ends <= now then
          verdict, left = 'expired', 0
          lost = forgotten
        elseif has > keeps then
          verdict, left = 'released', keeps
        end
        -- A hold without permits was withdrawn, and has waited for this release.
        if left < has or forgotten > lost or has == 0 then
          changed = true
          out = out - has + left
          if forgotten > lost then
            size = math.max(size - forgotten + lost, 0)
            lost = forgotten
          end
          sizes = sizes or forgotten > 0
          if now_is[name] == nil then
            changes[#changes + 1] = name
          end
          now_is[name] = left > 0 and ends .. ' ' .. left .. ' ' .. lost
        end
      end
      repeated[i] = repeated[i] or same and verdict ~= 'released'
      line = line .. ' ' .. verdict .. ' ' .. left
    end
    lines[i] = line
    if ARGV[own + 2] ~= '' then
      waiters[#waiters + 1] = ARGV[own + 2]
    end
  end
  if not same then
    return nil
  end

  local waiting = f[4] and l
  if changed then
    local over, gone, write = {}, {}, {}
    for _, name in ipairs(changes) do
      if now_is[name] then
        write[#write + 1], write[#write + 2] = name, now_is[name]
      else
        over[#over + 1], gone[#gone + 1] = name, string.sub(name, 3)
      end
    end
    write[#write + 1], write[#write + 2] = 'c', out
    if sizes then
      write[#write + 1], write[#write + 2] = 's', size
    end
    pool_end(k, write, over)
    if gone[1] and d then
      call('ZREM', d, unpack(gone))
    end
  elseif waiting then
    call('HDEL', k, '')
  end

  local spent = f[6]
  for _, i in ipairs(pool) do
    local attempt, void = ARGV[6 * i - 2], ARGV[6 * i - 1]
    if void ~= '' and void >= now then
      -- Copies of this attempt must not act any more.
      spent = end_attempt(k, spent, kind, client .. attempt, void, now)
      if not f[2] then
        call('PEXPIRE', k, keep)
      elseif f[7] and f[7] <= void then
        -- The pool expires before its copies.
        call('PEXPIRE', k, void - now + 1)
      end
    end
  end

  if waiters[1] and l then
    -- Also without waiters in K, since places outlive a deleted pool.
    call('ZREM', q, unpack(waiters))
  end
  if waiting then
    local alone = not pool[2] and ARGV[6 * pool[1] - 2] ~= ''
    local grants = pool_grants(k, now, micros, out, f[9], spent, alone and client)
    pool_serve(k, d, q, l, now, f[5], f[8], size - out, size, {}, not f[7] and grants)
    if grants.told ~= '' then
      local last = pool[#pool]
      lines[last] = lines[last] .. (alone and '' or ' sent') .. grants.told
    end
  end
  local unheard
  for _, i in ipairs(pool) do
    if repeated[i] and d and ARGV[6 * i - 2] ~= '' then
      -- The reply that told of the grants may be lost.
      unheard = unheard or pool_unheard(k, d, now, client, 16, true)
      for _, n in ipairs(unheard) do
        lines[i] = lines[i] .. ' holds ' .. client .. ':' .. n
      end
    end
  end
  return nil
end

-- Serves entry i, and with it all others of its pool, which share its error. Returns its line.
local function serve_entry(i)
  local pool = pools[i]
  if not pool.failed and not pool.served then
    pool.served = true
    local fine, failed = true, nil
    if entries == 1 then
      failed = serve(pool)
    else
      fine, failed = pcall(serve, pool)
    end
    pool.failed = not fine and type(failed) ~= 'table' and {err = failed} or failed
  end
  return pool.failed or lines[i]
end

return entries_serve(entries, serve_entry)
