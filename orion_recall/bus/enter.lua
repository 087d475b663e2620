-- One published query into the query stream, unless it is there already or comes too late to tell.
--
-- Every worker hears what is published. The first to come here takes the message's id and adds the entry; both in one
-- step, or a worker that ends between the two would lose the message for all of them. The deadline is by this server's
-- clock, as the mark is: a worker that was stopped, or whose command was, cannot come when the mark has gone.
--
-- KEYS  1 query stream  2 the key that marks the message's id as taken
-- ARGV  1 how long it is marked, in ms  2 the deadline, in epoch ms  3... the entry's fields and values
-- Returns 1 entered, 0 it was entered before, -1 the deadline is over.
local now = redis.call('TIME')
if now[1] * 1000 + math.floor(now[2] / 1000) > tonumber(ARGV[2]) then return -1 end
if not redis.call('SET', KEYS[2], '1', 'NX', 'PX', ARGV[1]) then return 0 end
local added = redis.pcall('XADD', KEYS[1], '*', unpack(ARGV, 3))
if type(added) == 'table' and added.err then
  -- Lua does not roll back: the mark of what did not get in would keep it out.
  redis.call('DEL', KEYS[2])
  return redis.error_reply(added.err)
end
return 1
