import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Counters, Decision, OnStoreFailure, Window } from '../../core/ports/counters.ts';
import type { Counter, Metrics } from '../../core/ports/metrics.ts';
import { encodeCount, type EncodedCommand, encodeParts, type RedisReply } from './encoded-command.ts';
import type { RedisCallOptions, RedisConnection } from './redis-connection.ts';
import { createHash } from 'node:crypto';

/** A script by its text and the name under which the server keeps it. */
interface Script {
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
const takeScript = script(`${prelude}
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
const adjustScript = script(`${prelude}
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

/** What a refusal for want of the store tells clients to wait, in seconds. */
const retryAfterSeconds = 2;
/** How long giving back may take; the server was slow a moment ago. */
const giveBackMs = 5000;

/** What `createRedisCounters` needs. */
interface RedisCountersOptions {
  readonly redis: RedisConnection;
  /** Counters in this process, which decide under the policy `local` while the server is away. */
  readonly local: Counters;
  readonly metrics?: Metrics;
  /** The time of the windows in whole milliseconds. Default: the server's own clock. For tests. */
  readonly now?: () => number;
}

/**
 * Counters that all gateways with the same server share. One call decides all windows at once, on the server, by the
 * server's clock.
 *
 * While the server is away or slow, `take` follows the policy that it is called with; `adjust` goes to the local
 * counters then. A call that was given up is never sent again; when its answer comes late, what it took is given back
 * if the request was refused meanwhile, and stays counted if it was let through.
 */
export function createRedisCounters(options: RedisCountersOptions): Counters {
  return new RedisCounters(options);
}

class RedisCounters implements Counters {
  private readonly redis: RedisConnection;
  private readonly local: Counters;
  private readonly now: (() => number) | undefined;
  private readonly countWithout: Record<OnStoreFailure, Counter | undefined>;
  /** Callers ask with the same list again and again; what is sent for it is put together once. */
  private readonly prepared = new WeakMap<readonly Window[], Prepared>();

  constructor({ redis, local, metrics, now }: RedisCountersOptions) {
    this.redis = redis;
    this.local = local;
    this.now = now;
    const without = metrics?.counter({
      name: 'weir_limits_without_store_total',
      help: 'Limit decisions made without the shared counters, by the policy that made them.',
      labels: ['policy'],
    });
    const series = (policy: OnStoreFailure): Counter | undefined => without?.({ policy });
    this.countWithout = { open: series('open'), closed: series('closed'), local: series('local') };
  }

  take(
    windows: readonly Window[],
    amount: number,
    onFailure: OnStoreFailure = 'local',
  ): Decision | Promise<Decision> {
    if (!(amount >= 0 && amount < Infinity)) {
      throw new RangeError(
        `Cannot take ${amount} from a counter; take a number of zero or more, give back with adjust().`,
      );
    }
    const prepared = this.prepare(windows);
    if (!this.redis.available) return this.takeWithout(windows, amount, onFailure);
    let refusedWithout = false;
    return this.redis.send<Decision>(prepared.command(takeScript, amount, this.now?.()), {
      read: (reply) => decisionOf(windows, reply),
      without: async () => {
        refusedWithout = true;
        const decision = await this.takeWithout(windows, amount, onFailure);
        refusedWithout = !decision.allowed;
        return decision;
      },
      late: (reply) => {
        if (refusedWithout && decisionOf(windows, reply).allowed)
          void this.adjustShared(prepared, -amount, { unhurried: true, budgetMs: giveBackMs });
      },
    });
  }

  adjust(windows: readonly Window[], delta: number): void | Promise<void> {
    if (!Number.isFinite(delta)) {
      throw new RangeError(`Cannot adjust a counter by ${delta}; give a finite number.`);
    }
    const prepared = this.prepare(windows);
    if (delta === 0) return undefined;
    if (!this.redis.available) return this.local.adjust(windows, delta);
    return this.adjustShared(prepared, delta);
  }

  /** Never rejects. An adjustment without an answer may have happened, so it is not made elsewhere too. */
  private adjustShared(prepared: Prepared, delta: number, options: RedisCallOptions = {}): Promise<void> {
    const command = prepared.command(adjustScript, delta, this.now?.());
    return this.redis.send(command, { ...options, read: nothing, without: nothing });
  }

  private takeWithout(
    windows: readonly Window[],
    amount: number,
    onFailure: OnStoreFailure,
  ): Decision | Promise<Decision> {
    this.countWithout[onFailure]?.inc();
    if (onFailure === 'local') return this.local.take(windows, amount);
    if (onFailure === 'open') return { allowed: true, refusedBy: -1, windows: [] };
    throw new GatewayError(
      'limits_unavailable',
      'The limits of this request cannot be checked now, because the store that counts does not answer. Try again shortly.',
      { headers: ['retry-after', String(retryAfterSeconds)] },
    );
  }

  private prepare(windows: readonly Window[]): Prepared {
    const known = this.prepared.get(windows);
    if (known !== undefined) return known;
    for (const { windowMs } of windows) {
      if (!Number.isSafeInteger(windowMs) || windowMs <= 0)
        throw new RangeError(`A window of ${windowMs} ms cannot be counted; give a whole number above zero.`);
    }
    const made = new Prepared(windows);
    this.prepared.set(windows, made);
    return made;
  }
}

/** Parts of a command beside those of its windows: name, script, number of keys, amount and time. */
const otherParts = 5;
/** Requests are counted one by one. */
const usualAmount = 1;

/** What is sent for a list of windows. */
class Prepared {
  readonly #head: string;
  readonly #windows: string;
  #usual: EncodedCommand | undefined;

  constructor(windows: readonly Window[]) {
    this.#head = encodeCount(otherParts + 3 * windows.length);
    this.#windows = encodeParts([
      windows.length,
      ...windows.map(keyOf),
      ...windows.flatMap(({ limit, windowMs }) => [limit, windowMs]),
    ]);
  }

  /** Runs the script with an amount, at a time (default: the server's). */
  command(script: Script, amount: number, now: number | undefined): EncodedCommand {
    if (script !== takeScript || amount !== usualAmount || now !== undefined)
      return this.#make(script, amount, now);
    return (this.#usual ??= this.#make(script, amount, now));
  }

  #make({ sha1, source }: Script, amount: number, now: number | undefined): EncodedCommand {
    const rest = this.#windows + encodeParts([amount, now ?? '']);
    return {
      name: 'evalsha',
      bytes: Buffer.from(this.#head + encodeParts(['EVALSHA', sha1]) + rest),
      // The server has forgotten its scripts (a restart, SCRIPT FLUSH): nothing was run.
      instead: ({ message }) =>
        message.startsWith('NOSCRIPT')
          ? { name: 'eval', bytes: this.#head + encodeParts(['EVAL', source]) + rest }
          : undefined,
    };
  }
}

/** What stands in braces places the key in a cluster: one organisation's keys are together. */
function keyOf({ key, group = '', windowMs }: Window): string {
  return `weir:{${group === '' ? '-' : encodeURIComponent(group)}}:counter:${windowMs}:${key}`;
}

function nothing(): void {
  // An adjustment has no result.
}

function decisionOf(windows: readonly Window[], reply: RedisReply): Decision {
  const numbers = new Numbers(Buffer.isBuffer(reply) ? reply : Buffer.from(String(reply)));
  const allowed = numbers.next() === 1;
  const refusedBy = numbers.next();
  const states: Decision['windows'][number][] = [];
  for (const { limit, windowMs } of windows) {
    const total = numbers.next();
    const remaining = total < limit ? limit - total : 0;
    states.push({ limit, windowMs, remaining, resetMs: numbers.next() });
  }
  return { allowed, refusedBy, windows: states };
}

const space = 0x20;
const zero = 0x30;

/** Numbers with a space between them, read one after the other. */
class Numbers {
  private readonly text: Buffer;
  private at = 0;

  constructor(text: Buffer) {
    this.text = text;
  }

  next(): number {
    const { text, at: start } = this;
    let value = 0;
    let isPlain = true;
    let at = start;
    for (; at < text.length && text[at] !== space; at++) {
      const digit = (text[at] as number) - zero;
      isPlain &&= digit >= 0 && digit <= 9;
      value = value * 10 + digit;
    }
    this.at = at + 1;
    return isPlain ? value : Number(text.toString('latin1', start, at));
  }
}
