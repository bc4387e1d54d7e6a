import http from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { startFleet } from '../../tests/kit/gateway-fleet.ts';
import { send } from '../../tests/kit/http-kit.ts';
import { operate } from '../../tests/kit/operator.ts';
import { stopEverything } from '../../tests/kit/process-kit.ts';
import { startRedis } from '../../tests/kit/redis-server.ts';
import { quantile } from './cpu.ts';

/** Milliseconds. */
interface Spread {
  readonly p50: number;
  readonly p95: number;
  readonly max: number;
}

/** When a change is in force. */
interface Times {
  /** How long the call that makes the change takes. */
  readonly call: Spread;
  /** From its answer until the last worker of the gateway that was asked has it; 0 when it had it before. */
  readonly workers: Spread;
  /** The same for the last worker of the other gateway. */
  readonly replica: Spread;
}

/** How soon changes are in force on two gateways with two workers each, on one PostgreSQL and one Redis server. */
interface InForceFigures {
  readonly changes: number;
  /** A deleted key is refused. */
  readonly key: Times;
  /** A saved config has its new version. */
  readonly config: Times;
}

/** The main process hands connections to its workers in turns, so these reach each of them. */
const connectionsOfEach = 4;
/** Rest of a connection between two requests: the figures are coarser by that and an answer. */
const restMs = 5;
const longestMs = 10_000;

/** Changes a key or a config on one gateway, and asks both on connections that stay open until all have it. */
export async function measureInForce(quick: boolean): Promise<InForceFigures> {
  const changes = quick ? 15 : 60;
  const redis = await startRedis();
  const fleet = await startFleet({
    size: 2,
    configuration: {
      server: { workers: 2 },
      storage: { analytics: { url: 'none:' }, counters: { url: redis.url } },
      pipelines: [
        { name: 'admin', match: { routes: 'contributed' }, plugins: ['auth', 'management'] },
        { name: 'gateway', match: { path: '/**' }, plugins: ['auth', 'policies', 'provider'] },
      ],
    },
  });
  const groups = fleet.gateways.map(({ url }) =>
    Array.from({ length: connectionsOfEach }, () => new Connection(url)),
  );
  const [url = ''] = fleet.gateways.map((gateway) => gateway.url);
  try {
    const workspace = { path: '/admin/workspaces', body: { name: 'In force' } };
    const { id: workspace_id } = (await operate(url, workspace)) as { readonly id: string };
    const makeKey = async (name: string): Promise<{ id: string; key: string }> => {
      const body = { name, workspace_id, scopes: ['completions.write'] };
      return (await operate(url, { path: '/api-keys/workspace/service', body })) as {
        id: string;
        key: string;
      };
    };
    const versionOf = (version: number) => ({
      provider: 'mock',
      override_params: { model: `version-${version}` },
    });
    const made = { name: 'changing', workspace_id, config: versionOf(0) };
    const saved = (await operate(url, { path: '/configs', body: made })) as { data: { slug: string } };
    const { slug } = saved.data;
    const { key } = await makeKey('stays');
    const keyTimes: Measured[] = [];
    const configTimes: Measured[] = [];
    for (let change = 1; change <= changes; change++) {
      const deleted = await makeKey(`goes ${change}`);
      const asked = { key: deleted.key, config: slug };
      await watch(groups, asked, ({ status }) => status === 200);
      keyTimes.push(
        await measure(
          () => operate(url, { method: 'DELETE', path: `/api-keys/${deleted.id}` }),
          watch(groups, asked, ({ status }) => status === 401),
        ),
      );
      const config = { config: versionOf(change) };
      configTimes.push(
        await measure(
          () => operate(url, { method: 'PUT', path: `/configs/${slug}`, body: config }),
          watch(groups, { key, config: slug }, ({ text }) => text.includes(`"version-${change}"`)),
        ),
      );
    }
    return { changes, key: timesOf(keyTimes), config: timesOf(configTimes) };
  } finally {
    for (const connection of groups.flat()) connection.close();
    await stopEverything();
    await fleet.server.stop();
    await redis.stop();
  }
}

interface Measured {
  readonly callMs: number;
  /** After the answer of the call, for each gateway. */
  readonly lateMs: readonly number[];
}

type Answer = Awaited<ReturnType<typeof send>>;

/** Asks on all connections until each has an answer of this kind; resolves with when, for the last one of each gateway. */
function watch(
  groups: readonly (readonly Connection[])[],
  asked: { readonly key: string; readonly config: string },
  isInForce: (answer: Answer) => boolean,
): Promise<readonly number[]> {
  return Promise.all(
    groups.map(async (group) =>
      Math.max(...(await Promise.all(group.map((connection) => connection.until(asked, isInForce))))),
    ),
  );
}

async function measure(
  change: () => Promise<unknown>,
  inForce: Promise<readonly number[]>,
): Promise<Measured> {
  // Of one that fails: the change fails as well, or the time is over.
  inForce.catch(() => undefined);
  const from = performance.now();
  await change();
  const answered = performance.now();
  return { callMs: answered - from, lateMs: (await inForce).map((at) => Math.max(0, at - answered)) };
}

function timesOf(measured: readonly Measured[]): Times {
  return {
    call: spreadOf(measured.map(({ callMs }) => callMs)),
    workers: spreadOf(measured.map(({ lateMs }) => lateMs[0] ?? 0)),
    replica: spreadOf(measured.map(({ lateMs }) => lateMs[1] ?? 0)),
  };
}

function spreadOf(values: readonly number[]): Spread {
  return { p50: quantile(values, 0.5), p95: quantile(values, 0.95), max: Math.max(...values) };
}

/** One connection to one gateway, and so to one of its workers. */
class Connection {
  readonly #url: string;
  readonly #agent = new http.Agent({ keepAlive: true, maxSockets: 1 });

  constructor(url: string) {
    this.#url = `${url}/v1/chat/completions`;
  }

  /** Asks until an answer is of this kind; resolves with the time at which its request was sent. */
  async until(
    { key, config }: { readonly key: string; readonly config: string },
    isInForce: (answer: Answer) => boolean,
  ): Promise<number> {
    const end = performance.now() + longestMs;
    for (;;) {
      const sentAt = performance.now();
      const answer = await send(this.#url, {
        agent: this.#agent,
        headers: { 'x-service-api-key': key, 'x-service-config': config },
        body: { model: 'mock-gpt', messages: [{ role: 'user', content: 'Hello' }] },
      });
      if (isInForce(answer)) return sentAt;
      if (sentAt > end) throw new Error(`A change is not in force after ${longestMs} ms: ${answer.text}`);
      await pause(restMs);
    }
  }

  close(): void {
    this.#agent.destroy();
  }
}
