#!lua flags=allow-oom
-- Reply, decision, dead letter and acknowledgement of one stream entry, as one step.
--
-- allow-oom: a server whose memory is full refuses those who add messages. An answer takes its message off the stream,
-- so refusing it, too, would keep the memory full for ever.
--
-- Lua does not roll back, so everything that can refuse comes first: every key that is to be written must be absent
-- or a stream, the entry must still be pending, and the reply, whose address is the caller's choice, must go through.
-- Then XACK is the fence: it returns 1 to exactly one caller, whoever claimed the entry.
--
-- Several entries may be given, each with a step of its own: what they have in common is said once. The first error
-- ends it: what follows has to be sent again, and that entry alone, so that its error can be told.
--
-- KEYS  1 intake  2 decision stream  3 dead-letter stream  4... the reply stream of each entry
-- ARGV  1 group   2 reply length  3 reply life in seconds  4 decisions kept at most
--       5 the group that persists decisions  6 bytes of a reply stream  7 of the decision stream
--       8 dead letters kept at most  9 their bytes
--      10 how many channels decisions are published on, and then the channels
--         and of each entry
--         its id, and its reply mode: "own" (a caller's stream: trimmed by length, expires), "shared" (trimmed by age),
--         "channel" (published), "none"; reply; decision or ""; "" or, where more follows, "1":
--         channel of the reply; dead-letter reason or ""; correlation id; "1": the dead letter holds the entry's
--         fields, "0": not; the decision as it is published, or ""; bytes of an entry that is too large to keep, or "",
--         hash of its message, first bytes of its message
-- Returns a list of numbers, one for each entry up to the first error: 1 committed, 2 committed and a channel of
--        decisions is closed to us, 0 fenced (somebody has answered), -1 the reply address cannot be written to, -2 a
--        stream of our own has another type.
local intake, decisions, letters, group, persisting = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[5]

local function writable(key)
  local kind = redis.call('TYPE', key).ok
  return kind == 'none' or kind == 'stream'
end

-- How many entries of the stream the group has been given; 0 without the group, or where the server does not know.
local function read_by(group, key)
  local groups = redis.pcall('XINFO', 'GROUPS', key)
  if groups.err then return 0 end
  for _, told in ipairs(groups) do
    local fields = {}
    for i = 1, #told, 2 do fields[told[i]] = told[i + 1] end
    if fields.name == group and fields.lag then return math.max(0, redis.call('XLEN', key) - fields.lag) end
  end
  return 0
end

-- The length that brings the stream within its bytes, were its entries of one size; nil where it is within them, or
-- where the server does not say.
local function length_within(key, bytes)
  local used = redis.pcall('MEMORY', 'USAGE', key, 'SAMPLES', 0)
  local length = redis.call('XLEN', key)
  if type(used) ~= 'number' or used <= bytes or length <= 1 then return nil end
  return math.max(1, math.floor(length * bytes / used * 0.9))
end

-- Trims the oldest entries until the stream is within its bytes; the newest stays. How many went.
local function trim_to_bytes(key, bytes)
  local gone = 0
  for _ = 1, 50 do
    local kept = length_within(key, bytes)
    if kept == nil then break end
    gone = gone + redis.call('XTRIM', key, 'MAXLEN', kept)
  end
  return gone
end

-- Whether the bytes of a stream of that length are due: measuring walks it, so once in so many entries is enough. A
-- stream that is trimmed to its most entries keeps its length: then it is once in so many commits, by chance.
local tick = tonumber(redis.call('TIME')[2])
local function due(length, most, every)
  tick = tick + 1
  return length % every == 0 or (length >= most and tick % every == 0)
end

local NOTHING_MORE = {'', '', '', '1', '', '', '', ''}

-- One entry. `more` has what follows "1" above.
local function commit(stream, id, mode, reply, decision, more)
  local reason, size = more[2], more[6]
  if (mode == 'own' or mode == 'shared') and not writable(stream) then return -1 end
  if decision ~= '' and not writable(decisions) then return -2 end
  if reason ~= '' and not writable(letters) then return -2 end

  local pending = redis.pcall('XPENDING', intake, group, id, id, 1)
  if pending.err and string.find(pending.err, 'WRONGTYPE', 1, true) then return redis.error_reply(pending.err) end
  if pending.err or #pending == 0 then return 0 end
  local entry = reason ~= '' and size == '' and redis.call('XRANGE', intake, id, id) or {}

  -- A replica publishes, too: a server that takes no writes now must say so before. The id is nobody's.
  if mode == 'channel' then redis.call('XACK', intake, group, '0-0') end

  -- pcall: a stream may have used up its ids, and a channel may be closed to us by an access list.
  local said = true
  if mode == 'own' then
    said = redis.pcall('XADD', stream, 'MAXLEN', '~', ARGV[2], '*', 'envelope', reply)
  elseif mode == 'shared' then
    local now = redis.call('TIME')
    said = redis.pcall('XADD', stream, 'MINID', '~', (now[1] - ARGV[3]) * 1000, '*', 'envelope', reply)
  elseif mode == 'channel' then
    said = redis.pcall('PUBLISH', more[1], reply)
  end
  if type(said) == 'table' and said.err then
    -- What is the server's trouble passes: a replica since a moment ago, too few replicas, a full disk, no memory left.
    for _, trouble in ipairs({'READONLY', 'NOREPLICAS', 'MISCONF', 'OOM'}) do
      if string.find(said.err, trouble, 1, true) then return redis.error_reply(said.err) end
    end
    return -1
  end

  if redis.call('XACK', intake, group, id) ~= 1 then return 0 end
  if mode == 'own' then redis.call('EXPIRE', stream, ARGV[3]) end
  if (mode == 'own' or mode == 'shared') and due(redis.call('XLEN', stream), tonumber(ARGV[2]), 16) then
    trim_to_bytes(stream, tonumber(ARGV[6]))
  end

  if decision ~= '' then
    redis.call('XADD', decisions, '*', 'envelope', decision)
    local length, cap, bytes = redis.call('XLEN', decisions), tonumber(ARGV[4]), tonumber(ARGV[7])
    local is_over = due(length, cap, 64) and length_within(decisions, bytes) ~= nil
    if length > cap or is_over then
      -- Beyond the cap the oldest go, and how many of them no sink had read is counted beside the stream.
      local read = read_by(persisting, decisions)
      local lost = redis.call('XTRIM', decisions, 'MAXLEN', '~', cap) - read
      if is_over then lost = lost + trim_to_bytes(decisions, bytes) end
      if lost > 0 then redis.pcall('INCRBY', decisions .. ':trimmed', lost) end
    end
  end

  if reason ~= '' then
    local fields = entry[1] and entry[1][2] or {}
    local letter = {'entry_id', id, 'reason', reason, 'correlation_id', more[3]}
    local function put(name, value)
      letter[#letter + 1] = name
      letter[#letter + 1] = value
    end
    -- Lua hands over a few thousand arguments at most; how many fields did not fit is said.
    local kept = math.min(#fields, 2000)
    if more[4] == '0' then
      kept = 0
      put('message_withheld', '1')
    elseif size ~= '' then
      put('message_sha256', more[7])
      put('message_head', more[8])
    end
    if size ~= '' then put('message_bytes', size) end
    if kept < #fields then put('fields_left_out', (#fields - kept) / 2) end
    for i = 1, kept, 2 do put('field:' .. fields[i], fields[i + 1]) end
    redis.call('XADD', letters, 'MAXLEN', '~', ARGV[8], '*', unpack(letter))
    trim_to_bytes(letters, tonumber(ARGV[9]))
  end

  redis.call('XDEL', intake, id)

  local committed = 1
  if more[5] ~= '' then
    for i = 11, 10 + ARGV[10] do
      local published = redis.pcall('PUBLISH', ARGV[i], more[5])
      if type(published) == 'table' and published.err then committed = 2 end
    end
  end
  return committed
end

-- The arguments of the next entry, from the place `at` on; and the place after them.
local function arguments(at)
  if ARGV[at + 4] == '' then return NOTHING_MORE, at + 5 end
  local more = {}
  for i = 1, 8 do more[i] = ARGV[at + 4 + i] end
  return more, at + 13
end

local results, at = {}, 11 + ARGV[10]
for number = 1, #KEYS - 3 do
  local more, after = arguments(at)
  local stream, id, mode, reply, decision = KEYS[3 + number], ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  if #KEYS == 4 then
    local result = commit(stream, id, mode, reply, decision, more)
    if type(result) == 'table' then return result end
    return {result}
  end
  local is_whole, result = pcall(commit, stream, id, mode, reply, decision, more)
  if not is_whole or type(result) == 'table' then break end
  results[number], at = result, after
end
return results
