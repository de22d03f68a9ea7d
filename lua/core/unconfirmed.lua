-- Holds that a release has granted and that their holders have not confirmed, see field p in
-- core/give.lua. This part does nothing by itself.

-- Returns the number of the attempt that holds without having confirmed it, nil if there is none.
-- `p` is the field, `token` that of the hold.
local function give_unconfirmed(p, token)
  if p and string.sub(p, 1, 16) == token then
    return string.sub(p, 20)
  end
  return nil
end

-- Returns the number of the attempt of `holder` that holds without having confirmed it, if it is of
-- the client of `asker`: its message may have been lost. Otherwise ''. `holder` and `asker` are
-- owners.
local function give_unheard(p, token, holder, asker)
  local n = give_unconfirmed(p, token)
  if n and string.match(holder, '^[^:]*') == string.match(asker, '^[^:]*') then
    return n
  end
  return ''
end

-- Returns the attempt that holds if it has not confirmed that and is of the client of `asker`, else
-- nil. A repeated release ends its reply with `holds <attempt>`: the reply to the first one, which
-- told of the grant, may be lost.
local function give_reminder(p, token, holder, asker)
  local n, client = give_unconfirmed(p, token), string.match(asker, '^[^:]*')
  if n and string.match(holder, '^[^:]*') == client then
    return client .. ':' .. n
  end
  return nil
end

