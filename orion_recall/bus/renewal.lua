#!lua flags=allow-oom
-- Makes streams anew that have an id far ahead of this server's clock, each in one step.
--
-- Whoever may add entries may choose an id, and after the last one that there is nothing can be added. An entry keeps its
-- id unless that is ahead, and stays in its place. Groups begin at the first entry: one that is in flight comes again.
--
-- KEYS  the streams
-- ARGV  1 how far an id may be ahead, in ms
-- Returns a list of streams that were made anew, each followed by how many entries it has.
local now = redis.call('TIME')
local latest = now[1] * 1000 + ARGV[1]

local function is_ahead(id)
  return tonumber(string.match(id, '^%d+')) > latest
end

-- The groups of the stream where an id is ahead, else nil. An entry that is gone was delivered to a group.
local function groups_to_move(key)
  local found = #redis.call('XRANGE', key, string.format('(%.0f-0', latest), '+', 'COUNT', 1) > 0
  local names = {}
  for _, told in ipairs(redis.call('XINFO', 'GROUPS', key)) do
    local fields = {}
    for i = 1, #told, 2 do fields[told[i]] = told[i + 1] end
    names[#names + 1] = fields.name
    found = found or is_ahead(fields['last-delivered-id'])
  end
  return found and names or nil
end

local anew = {}
for _, key in ipairs(KEYS) do
  local groups = redis.call('TYPE', key).ok == 'stream' and groups_to_move(key)
  if groups then
    local entries = redis.call('XRANGE', key, '-', '+')
    redis.call('DEL', key)
    for _, name in ipairs(groups) do redis.call('XGROUP', 'CREATE', key, name, '0', 'MKSTREAM') end
    for _, entry in ipairs(entries) do
      -- Lua hands over a few thousand arguments at most, and with more fields than these a message is refused anyway.
      local fields = entry[2]
      redis.call('XADD', key, is_ahead(entry[1]) and '*' or entry[1], unpack(fields, 1, math.min(#fields, 4000)))
    end
    anew[#anew + 1] = key
    anew[#anew + 1] = #entries
  end
end
return anew
