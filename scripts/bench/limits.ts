import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import {
  LargerCharges,
  LimitCharges,
  keyBudgetKey,
  takeCharges,
  workspaceBudgetKey,
} from '../../core/access/limit-charges.ts';
import { systemClock as clock } from '../../core/ports/clock.ts';
import type { Limiter, LimitReservation } from '../../core/ports/counters.ts';
import type { OwnedUsageLimit } from '../../core/ports/budgets.ts';
import { createLog } from '../../adapters/telemetry/line-log.ts';
import { createBudgets } from '../../storage/memory/budgets.ts';
import { createMemoryCounters } from '../../storage/memory/counters.ts';
import { createMemoryLimiter } from '../../storage/memory/limiter.ts';
import { openRedis } from '../../storage/redis/open-redis.ts';
import { createRedisLimiter } from '../../storage/redis/redis-limiter.ts';
import { collectGarbage } from '../../core/base/collect-garbage.ts';
import { redisMissing, startRedis } from '../../tests/kit/redis-server.ts';
import { median } from './cpu.ts';

/** Cost of the decision about limits, medians over the rounds. A request has five windows and two budgets. */
interface LimitFigures {
  /** CPU of admission and settlement in memory. */
  readonly memory_us: number;
  /** Undefined where no server is installed. */
  readonly redis: RedisFigures | undefined;
  /** Why they are not measured on a server; false where they are. */
  readonly redis_missing: string | false;
  readonly budgets: number;
  /** Living objects, beside the charges that keys hold. */
  readonly bytes_per_budget: number;
  /** The same with those: its name, its limit, its subject. */
  readonly bytes_with_names: number;
  /** CPU among many budgets, relative to that among ten. */
  readonly ratio_among_many: number;
}

interface RedisFigures {
  /** Of the gateway's side: admission and settlement. */
  readonly cpu_us: number;
  /**
   * Of two scripts without arguments that keep the server about as busy, through such a client in the same minute: the
   * floor of two round trips here. The busier a server, the fewer answers arrive together.
   */
  readonly two_scripts_us: number;
  /** Of the server: the scripts of admission and settlement. */
  readonly server_us: number;
  readonly calls_per_admission: number;
  readonly calls_per_settlement: number;
}

const enough = 4_000_000_000;
const expected = { tokens: 500, cost: 4 };
/** So dear that billionths of a dollar exceed V8's small integers, as after some requests. */
const used = { cost: 3, tokens: 320, requests: 1 };
const write = (text: string): void => void process.stderr.write(text);
const log = createLog({ level: 'warn', format: 'text', write, clock });

/** Limits in memory and on a Redis server, by one request and among 100,000 budgets (10,000 when `quick`). */
export async function measureLimits(quick: boolean): Promise<LimitFigures> {
  const budgets = quick ? 10_000 : 100_000;
  const rounds = quick ? 5 : 15;
  return {
    memory_us: measureInMemory(rounds),
    redis: redisMissing === false ? await measureOnRedis(rounds, quick ? 10_000 : 40_000) : undefined,
    redis_missing: redisMissing,
    budgets,
    bytes_per_budget: bytesPerBudget(budgets, true),
    bytes_with_names: bytesPerBudget(budgets, false),
    ratio_among_many: ratioAmong(budgets, rounds),
  };
}

/** As a store hands it out: in one piece. */
function anId(): string {
  return Buffer.from(randomUUID()).toString('latin1');
}

/** Makes the limits of one key's requests, as the plugin `policies` does for each of them. */
type Source = () => LimitCharges;

/** Keys of workspaces with limits of their own, below one policy. */
function keySources(keys: number): readonly Source[] {
  const organisationId = anId();
  const monthly: OwnedUsageLimit = {
    limit: { type: 'cost', creditLimit: enough, periodicReset: 'monthly' },
    createdAt: clock.now(),
  };
  const total: OwnedUsageLimit = {
    limit: { type: 'tokens', creditLimit: enough * 1000 },
    createdAt: clock.now(),
  };
  const policy = { key: `policy:${anId()}:`, group: organisationId, limit: enough, windowMs: 60_000 };
  const larger = new LargerCharges();
  return Array.from({ length: keys }, () => {
    const id = anId();
    const workspaceId = anId();
    const own = new LimitCharges();
    const ofKey = keyBudgetKey(organisationId, id);
    own.addLimits(
      [
        { type: 'requests', unit: 'rpm', value: enough },
        { type: 'tokens', unit: 'rpm', value: enough * 1000 },
      ],
      { prefix: ofKey, organisationId, name: `key "${id}"` },
    );
    own.addUsageLimits([monthly], ofKey, organisationId, { type: 'api_key', id, name: 'bench', workspaceId });
    const ofWorkspace = workspaceBudgetKey(organisationId, workspaceId);
    own.addLimits(
      [
        { type: 'requests', unit: 'rpd', value: enough },
        { type: 'tokens', unit: 'rpd', value: enough * 1000 },
      ],
      { prefix: ofWorkspace, organisationId, name: `workspace "${workspaceId}"` },
    );
    own.addUsageLimits([total], ofWorkspace, organisationId, {
      type: 'workspace',
      id: workspaceId,
      name: workspaceId,
      workspaceId,
    });
    return () => larger.withWindow(own, 'requests', policy, 'The rate-limit policy "bench"');
  });
}

function openMemory() {
  const counters = createMemoryCounters({ clock, log });
  const budgets = createBudgets({ clock, log });
  return { counters, budgets, limiter: createMemoryLimiter({ counters, budgets }) };
}

function measureInMemory(rounds: number): number {
  const { counters, limiter } = openMemory();
  const sources = keySources(100);
  const costs = Array.from({ length: rounds + 1 }, () => cpuOfRound(limiter, sources, 100_000));
  counters.close();
  // The first round pays for the compiler.
  return median(costs.slice(1));
}

/** Microseconds of CPU per request, of one source after the other. */
function cpuOfRound(limiter: Limiter, sources: readonly Source[], requests: number): number {
  const before = process.cpuUsage();
  for (let run = 0; run < requests; run++) admitNow(limiter, sources[run % sources.length] as Source);
  return microsecondsSince(before) / requests;
}

function admitNow(limiter: Limiter, source: Source): void {
  const taken = take(limiter, source);
  if (taken === undefined || 'then' in taken)
    throw new Error('A limiter of the bench does not answer at once.');
  void taken.settle(used);
}

function take(limiter: Limiter, source: Source) {
  return takeCharges(source(), { limiter, expected, code: 'rate_limited' });
}

function microsecondsSince(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before);
  return user + system;
}

const warmRequests = 60_000;
/** About 60 µs of a server. */
const loopRounds = 6000;
/** Requests under way at once. */
const concurrency = 32;

async function measureOnRedis(rounds: number, requests: number): Promise<RedisFigures> {
  const server = await startRedis();
  const { counters, budgets, limiter: local } = openMemory();
  const client = new Redis(server.port);
  // A slow answer on a busy machine must not count as an absent server.
  const redis = await openRedis({ url: server.url, log, clock, budgetMs: 10_000 });
  // Health probes are not part of a request's cost.
  const still = { ...clock, after: () => () => undefined };
  const limiter = createRedisLimiter({ redis, local, budgets, clock: still, keepMs: 86_400_000 });
  const sources = keySources(100);
  const next = sourceAfterSource(sources);
  try {
    const costs: number[] = [];
    const pass = (count: number): Promise<void> =>
      atOnce(count, async () => (await reserved(limiter, next())).settle(used));
    // Until its code is compiled the process pays for the compiler.
    await pass(warmRequests);
    await client.config('RESETSTAT');
    for (let round = 0; round < rounds; round++) {
      const before = process.cpuUsage();
      await pass(requests);
      costs.push(microsecondsSince(before) / requests);
    }
    const { microseconds } = await scriptsSince(client);
    const bare: number[] = [];
    const loop = String(
      await client.script('LOAD', `local x = 0 for i = 1, ${loopRounds} do x = x + i end return x`),
    );
    for (let round = 0; round < rounds; round++) {
      const before = process.cpuUsage();
      await atOnce(requests, async () => {
        await client.evalsha(loop, 0);
        await client.evalsha(loop, 0);
      });
      bare.push(microsecondsSince(before) / requests);
    }
    const counted = 1000;
    const taken: LimitReservation[] = [];
    const admitted = await scriptsRun(client, () =>
      atOnce(counted, async () => void taken.push(await reserved(limiter, next()))),
    );
    const settled = await scriptsRun(client, () =>
      atOnce(counted, async () => void (await taken.pop()?.settle(used))),
    );
    return {
      cpu_us: median(costs),
      two_scripts_us: median(bare),
      server_us: microseconds / (requests * rounds),
      calls_per_admission: admitted / counted,
      calls_per_settlement: settled / counted,
    };
  } finally {
    limiter.close();
    client.disconnect();
    await redis.close();
    counters.close();
    await server.stop();
  }
}

function sourceAfterSource(sources: readonly Source[]): Source {
  let at = 0;
  return () => (sources[at++ % sources.length] as Source)();
}

/** Throws when the server has not decided. */
async function reserved(limiter: Limiter, charges: LimitCharges): Promise<LimitReservation> {
  const taken = await takeCharges(charges, {
    limiter,
    expected,
    onStoreFailure: 'closed',
    code: 'rate_limited',
  });
  if (taken === undefined) throw new Error('The limiter of the bench has counted nothing.');
  return taken;
}

async function atOnce(total: number, run: () => Promise<void>): Promise<void> {
  let left = total;
  const worker = async (): Promise<void> => {
    while (left-- > 0) await run();
  };
  await Promise.all(Array.from({ length: concurrency }, worker));
}

/** How many scripts the server runs meanwhile: each is one call, and there are no others. */
async function scriptsRun(client: Redis, run: () => Promise<unknown>): Promise<number> {
  await client.config('RESETSTAT');
  await run();
  return (await scriptsSince(client)).calls;
}

/** Scripts that the server has run since its statistics were reset, and the time that they took. */
async function scriptsSince(client: Redis): Promise<{ calls: number; microseconds: number }> {
  const stats = await client.info('commandstats');
  let calls = 0;
  let microseconds = 0;
  for (const [, count, usec] of stats.matchAll(/^cmdstat_(?:evalsha|eval):calls=(\d+),usec=(\d+)/gm)) {
    calls += Number(count);
    microseconds += Number(usec);
  }
  return { calls, microseconds };
}

/** Keys with one budget each, and nothing else. */
function budgetSource(organisationId: string): LimitCharges {
  const id = anId();
  const charges = new LimitCharges();
  const limit = { type: 'cost', creditLimit: enough, periodicReset: 'monthly' } as const;
  const subject = { type: 'api_key', id, name: 'bench', workspaceId: organisationId } as const;
  const prefix = keyBudgetKey(organisationId, id);
  charges.addUsageLimits([{ limit, createdAt: clock.now() }], prefix, organisationId, subject);
  return charges;
}

/** Bytes per budget that is used once; `isNamedByKeys`: without its name, which its key holds. */
function bytesPerBudget(count: number, isNamedByKeys: boolean): number {
  const { limiter, counters } = openMemory();
  const organisationId = anId();
  const make = (): LimitCharges => budgetSource(organisationId);
  const keys = isNamedByKeys ? Array.from({ length: count }, make) : [];
  // The allocations of the first budgets are not measured.
  for (let run = 0; run < 1000; run++) admitNow(limiter, make);
  const before = livingBytes();
  for (let run = 0; run < count; run++) admitNow(limiter, () => keys[run] ?? make());
  const bytes = livingBytes() - before;
  // Both are in use until here.
  admitNow(limiter, () => keys[0] ?? make());
  counters.close();
  return bytes / count;
}

function livingBytes(): number {
  collectGarbage();
  collectGarbage();
  return process.memoryUsage().heapUsed;
}

/** Cost of requests of ten keys among `count` with a budget, relative to ten keys alone; measured in turns. */
function ratioAmong(count: number, rounds: number): number {
  const few = openMemory();
  const many = openMemory();
  const organisationId = anId();
  for (let run = 0; run < count; run++) admitNow(many.limiter, () => budgetSource(organisationId));
  const sources = Array.from({ length: 10 }, () => {
    const charges = budgetSource(organisationId);
    return () => charges;
  });
  const ratios = Array.from({ length: rounds + 1 }, () => {
    const alone = cpuOfRound(few.limiter, sources, 200_000);
    return cpuOfRound(many.limiter, sources, 200_000) / alone;
  });
  few.counters.close();
  many.counters.close();
  return median(ratios.slice(1));
}
