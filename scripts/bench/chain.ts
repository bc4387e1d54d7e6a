import { setTimeout as pause } from 'node:timers/promises';
import { redisMissing, startRedis } from '../../tests/kit/redis-server.ts';
import { measured, median, type Burst } from './cpu.ts';
import { load, type RequestSource } from './load.ts';
import { benchConfig, removeFolder, startBare, startUpstream, startWeir, type Subject } from './subject.ts';
import { requestBytes } from './workload.ts';

/** CPU of the first chain with the cache, beside the bare proxy of the same run. */
export interface ChainFigures {
  bare_us: number;
  hit_us: number;
  miss_us: number;
  /** With counters and cache in Redis, on a miss; absent where no server is installed. */
  redis_us?: number;
}

const connections = 32;
const warmRequests = 100_000;

/** Every request served from the cache, none of them, and none with counters and cache in Redis. In turns. */
export async function measureChain(quick: boolean): Promise<ChainFigures> {
  const rounds = quick ? 3 : 7;
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
    const subjects: [keyof ChainFigures, Subject, (port: number) => RequestSource][] = [
      ['bare_us', bare, same],
      ['hit_us', local, same],
      ['miss_us', local, unique()],
    ];
    if (shared) subjects.push(['redis_us', shared, unique()]);
    for (const [, subject, source] of subjects) {
      await load(subject.port, source(subject.port), warmRequests, connections);
      await pause(1000);
    }
    const bursts = new Map<keyof ChainFigures, Burst[]>(subjects.map(([name]) => [name, []]));
    for (let round = 0; round < rounds; round++) {
      for (const [name, subject, source] of subjects) {
        const run = () => load(subject.port, source(subject.port), requests, connections);
        bursts.get(name)?.push(await measured(subject, run));
      }
    }
    const figure = (name: keyof ChainFigures): number =>
      median((bursts.get(name) ?? []).map((one) => one.cpuMicroseconds / one.completed));
    return {
      bare_us: figure('bare_us'),
      hit_us: figure('hit_us'),
      miss_us: figure('miss_us'),
      ...(shared ? { redis_us: figure('redis_us') } : {}),
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

/** Requests of which no two are the same, over all bursts. */
function unique(): (port: number) => RequestSource {
  let serial = 0;
  return (port) => () => requestBytes(port, false, `user-${String(serial++).padStart(9, '0')}`);
}
