import { setTimeout as pause } from 'node:timers/promises';
import { redisMissing, startRedis } from '../../tests/kit/redis-server.ts';
import { measured, median, quantile } from './cpu.ts';
import { load, type RequestSource } from '../../main/bench-command/load.ts';
import { benchConfig, removeFolder, startBare, startUpstream, startWeir, type Subject } from './subject.ts';
import { requestBytes } from './workload.ts';

/** CPU of the first chain with the cache, relative to the bare proxy of the same run. */
interface ChainFigures {
  bare_us: number;
  hit_us: number;
  miss_us: number;
  /** With counters and cache in Redis, on a miss; absent where no server is installed. */
  redis_us?: number;
  /** Range of the middle half of the rounds, each relative to the bare proxy of its round. */
  spread: Readonly<Partial<Record<Name, Quartiles>>>;
}

type Name = 'bare' | 'hit' | 'miss' | 'redis';
type Quartiles = readonly [lower: number, upper: number];

const connections = 32;
const warmRequests = 100_000;

/** Every request served from the cache, none of them, and none with counters and cache in Redis. In turns. */
export async function measureChain(quick: boolean): Promise<ChainFigures> {
  // Many: on a shared machine the pace changes within seconds, and all subjects are to see the same.
  const rounds = quick ? 3 : 15;
  const requests = quick ? 8000 : 20000;
  const upstream = await startUpstream();
  if (redisMissing !== false) console.log(`${redisMissing}: the figure with Redis is left out.`);
  const redis = redisMissing === false ? await startRedis() : undefined;
  const bare = await startBare(upstream.port);
  const local = await startWeir({ upstreamPort: upstream.port, config: chainConfig(upstream.port) });
  const shared =
    redis &&
    (await startWeir({ upstreamPort: upstream.port, config: chainConfig(upstream.port, redis.port) }));
  try {
    const subjects: [Name, Subject, (port: number) => RequestSource][] = [
      ['bare', bare, same],
      ['hit', local, same],
      ['miss', local, unique()],
    ];
    if (shared) subjects.push(['redis', shared, unique()]);
    for (const [, subject, source] of subjects) {
      await load(subject.port, source(subject.port), warmRequests, connections);
      await pause(1000);
    }
    const costs: Record<Name, number[]> = { bare: [], hit: [], miss: [], redis: [] };
    for (let round = 0; round < rounds; round++) {
      for (const [name, subject, source] of subjects) {
        const run = () => load(subject.port, source(subject.port), requests, connections);
        const { cpuMicroseconds, completed } = await measured(subject, run);
        costs[name].push(cpuMicroseconds / completed);
      }
    }
    const spread = (name: Name): Quartiles => {
      const ratios = costs[name].map((cost, round) => cost / (costs.bare[round] ?? NaN));
      return [quantile(ratios, 0.25), quantile(ratios, 0.75)];
    };
    return {
      bare_us: median(costs.bare),
      hit_us: median(costs.hit),
      miss_us: median(costs.miss),
      ...(shared ? { redis_us: median(costs.redis) } : {}),
      spread: Object.fromEntries(subjects.map(([name]) => [name, spread(name)])),
    };
  } finally {
    await Promise.all([bare.stop(), local.stop(), shared?.stop()]);
    await upstream.stop();
    await redis?.stop();
    await removeFolder(local.folder);
    if (shared) await removeFolder(shared.folder);
  }
}

/** The bench's chain with `inline-image` and `cache` in their places. */
function chainConfig(upstreamPort: number, redisPort?: number): string {
  const config = benchConfig(upstreamPort, [
    'inline-image: { providers: [anthropic] }',
    'cache: { max_age: 3600 }',
  ]);
  return redisPort === undefined
    ? config
    : config.replace(
        'providers:',
        `storage: { counters: { url: "redis://127.0.0.1:${redisPort}" } }\nproviders:`,
      );
}

function same(port: number): RequestSource {
  return requestBytes(port, false);
}

/** Unique requests over all bursts. */
function unique(): (port: number) => RequestSource {
  let serial = 0;
  return (port) => () => requestBytes(port, false, `user-${String(serial++).padStart(9, '0')}`);
}
