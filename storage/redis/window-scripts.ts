import { createHash } from 'node:crypto';

/** A script by its text and the name under which the server keeps it. */
export interface Script {
  readonly source: string;
  readonly sha1: string;
}

/**
 * KEYS: one per window. ARGV: the limit and the length of each window, then the amount, then the time in
 * milliseconds (empty: the server's own, so that the clocks of the gateways do not matter).
 *
 * A counter is a packed list of (sub-bucket, amount) pairs, oldest first, at most 61 of them. The arithmetic is that
 * of the counters in memory, to the millisecond.
 */
const prelude = `
local floor, ceil = math.floor, math.ceil
local count = #KEYS
local amount = tonumber(ARGV[2 * count + 1])
local now = tonumber(ARGV[2 * count + 2])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + floor(time[2] / 1000)
end

local function bucket_at(time, length)
  return floor(time * 60 / length)
end

local function open(key, length)
  local packed = redis.call('GET', key)
  local stored = packed and cmsgpack.unpack(packed) or {}
  local newest = stored[#stored - 1]
  local at = now
  -- A clock that went back stands still until it has caught up: it must not open a limit.
  if newest and bucket_at(at, length) < newest then at = ceil(newest * length / 60) end
  local oldest = bucket_at(at, length) - 60
  local pairs_kept, total = {}, 0
  for i = 1, #stored, 2 do
    if stored[i] >= oldest then
      pairs_kept[#pairs_kept + 1] = stored[i]
      pairs_kept[#pairs_kept + 1] = stored[i + 1]
      total = total + stored[i + 1]
    end
  end
  return { key = key, length = length, at = at, ring = pairs_kept, total = total }
end

local function add(window, more)
  local ring, bucket = window.ring, bucket_at(window.at, window.length)
  if ring[#ring - 1] == bucket then
    ring[#ring] = ring[#ring] + more
  else
    ring[#ring + 1] = bucket
    ring[#ring + 1] = more
  end
  window.total = window.total + more
end

-- Expiry is housekeeping and decides nothing, hence the ten seconds to spare.
local function save(window)
  local expiry = ceil(window.length * 61 / 60) + 10000
  redis.call('SET', window.key, cmsgpack.pack(window.ring), 'PX', string.format('%.0f', expiry))
end

local by_key, windows = {}, {}
for i = 1, count do
  local key = KEYS[i]
  by_key[key] = by_key[key] or open(key, tonumber(ARGV[2 * i]))
  windows[i] = by_key[key]
end
`;

/** Replies `ALLOWED REFUSED_BY`, then the total and the milliseconds until one more may be taken of each window. */
export const takeScript = script(`${prelude}
local function leaves_at(bucket, length)
  return ceil((bucket + 61) * length / 60)
end

local function until_at_most(window, most)
  local ring, rest = window.ring, window.total
  if rest <= most then return 0 end
  if most < 0 or #ring == 0 then return math.huge end
  for i = 1, #ring, 2 do
    rest = rest - ring[i + 1]
    if rest <= most then return leaves_at(ring[i], window.length) - window.at end
  end
  return leaves_at(ring[#ring - 1], window.length) - window.at
end

local allowed = true
for i = 1, count do
  -- Written so that a limit that is no number refuses.
  if not (windows[i].total + amount <= tonumber(ARGV[2 * i - 1])) then allowed = false end
end
local refused_by = -1
if not allowed then
  local longest = -1
  for i = 1, count do
    local wait = until_at_most(windows[i], tonumber(ARGV[2 * i - 1]) - amount)
    if wait > longest then longest, refused_by = wait, i - 1 end
  end
elseif amount > 0 then
  for i = 1, count do add(windows[i], amount) end
  for _, window in pairs(by_key) do save(window) end
end
local reply = { allowed and '1' or '0', tostring(refused_by) }
for i = 1, count do
  local window, limit, wait = windows[i], tonumber(ARGV[2 * i - 1]), 0
  if not (window.total < limit) then wait = until_at_most(window, limit - 1) end
  if wait == math.huge then wait = window.length end
  reply[#reply + 1] = string.format('%.17g', window.total)
  reply[#reply + 1] = string.format('%.0f', wait)
end
return table.concat(reply, ' ')
`);

/** Adds the amount without a check, or gives it back (negative): the oldest first, never below zero. */
export const adjustScript = script(`${prelude}
local function give_back(window, rest)
  local ring = window.ring
  for i = 2, #ring, 2 do
    local taken = math.min(ring[i], rest)
    ring[i] = ring[i] - taken
    rest = rest - taken
  end
end

for i = 1, count do
  if amount > 0 then add(windows[i], amount) else give_back(windows[i], -amount) end
end
for _, window in pairs(by_key) do
  if #window.ring > 0 then save(window) end
end
return 'OK'
`);

function script(source: string): Script {
  return { source, sha1: createHash('sha1').update(source).digest('hex') };
}
