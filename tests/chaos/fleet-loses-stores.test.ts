// Four gateways with two workers each, under load: Redis, PostgreSQL, a gateway and the analytics store go in turn, and
// come back. WEIR_CHAOS_SEED decides their order, and how and for how long each is away.
import assert from 'node:assert/strict';
import http from 'node:http';
import { after, before, describe, test, type TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { createClient, type ClickHouseClient } from '@clickhouse/client';
import { chdbMissing, startTestChdb } from '../../storage/embedded/chdb-fixture.ts';
import type { EmbeddedChdb } from '../../storage/embedded/start-chdb.ts';
import { haproxyMissing, startHaproxy, startStandIn, type Balancer } from '../kit/balancer.ts';
import { startFront, type Front } from '../kit/front.ts';
import { startFleet, type Fleet } from '../kit/gateway-fleet.ts';
import { send } from '../kit/http-kit.ts';
import { call, operate } from '../kit/operator.ts';
import { postgresMissing } from '../kit/postgres-server.ts';
import { eventually, stopEverything, sumOfSeries } from '../kit/process-kit.ts';
import { redisMissing, startRedis, type RedisServer } from '../kit/redis-server.ts';
import { defaultRuntime } from '../kit/runtimes.ts';

const size = 4;
const workers = 2;
const onNode = defaultRuntime === 'node' ? false : 'Deno cannot share a port between processes';
const seed = Number(process.env['WEIR_CHAOS_SEED'] ?? 1);

/** Of each limit that is used up while something is lost. */
const windowLimit = 60;
const budgetLimit = 40;
/** Twenty times the usual: Redis shares the machine with starting gateways. */
const redisBudgetMs = 1000;
const everyMs = 10;
const openStreams = 6;
const mostInFlight = 256;
/** A row is on the disk after `storage.journal.flush_ms` (20 ms), and the turns of a busy process. */
const lastFlushMs = 250;
/** Counts of budgets are stored every second. */
const lastCountMs = 1000 + lastFlushMs;
/** Of the longest stream, at the prices below. */
const mostDollars = 0.001;

type Loss = 'nothing' | 'nothing more' | 'redis' | 'postgres' | 'gateway' | 'analytics';
type Kind = 'paid' | 'window' | 'budget' | 'stream';

/** A request of the load. */
interface Sent {
  readonly trace: string;
  readonly kind: Kind;
  /** During what loss it was sent. */
  readonly loss: Loss;
  readonly sentAt: number;
  readonly endedAt: number;
  /** `served`, status and code of a refusal, or how it failed. */
  readonly outcome: string;
  /** Which gateway answered; undefined when none did. */
  readonly gateway: string | undefined;
}

/** Chance that a seed repeats. */
function chance(start: number): (from: number, to: number) => number {
  let state = start >>> 0;
  return (from, to) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return from + (((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * (to - from);
  };
}

/** Requests at an even rate and streams that are always open, until it is stopped. */
class Load {
  readonly sent: Sent[] = [];
  loss: Loss = 'nothing';
  /** Requests that were not sent because too many had no answer yet. */
  held = 0;
  readonly #url: string;
  readonly #keyOf: (kind: Kind, loss: Loss) => string;
  readonly #agent = new http.Agent({ keepAlive: true });
  readonly #inFlight = new Set<Promise<void>>();
  readonly #timer: NodeJS.Timeout;
  readonly #streams: Promise<void>[];
  #count = 0;
  #isRunning = true;

  constructor(url: string, keyOf: (kind: Kind, loss: Loss) => string) {
    this.#url = url;
    this.#keyOf = keyOf;
    this.#timer = setInterval(() => this.#tick(), everyMs);
    this.#streams = Array.from({ length: openStreams }, (_, index) => this.#stream(10 + 8 * index));
  }

  async stop(): Promise<void> {
    this.#isRunning = false;
    clearInterval(this.#timer);
    await Promise.all([...this.#inFlight, ...this.#streams]);
    this.#agent.destroy();
  }

  #tick(): void {
    const kinds: readonly Kind[] = ['paid', 'window', 'paid', 'budget', 'paid'];
    if (this.#inFlight.size >= mostInFlight) {
      this.held += 1;
      return;
    }
    const asked = this.#ask(kinds[this.#count % kinds.length]!, 'mock-gpt').finally(() =>
      this.#inFlight.delete(asked),
    );
    this.#inFlight.add(asked);
  }

  async #stream(tokens: number): Promise<void> {
    while (this.#isRunning) await this.#ask('stream', `mock:tokens=${tokens},chunk_latency_ms=40`);
  }

  async #ask(kind: Kind, model: string): Promise<void> {
    const { loss } = this;
    const trace = `chaos-${kind}-${++this.#count}`;
    const sentAt = performance.now();
    const isStream = kind === 'stream';
    let gateway: string | undefined;
    let outcome: string;
    try {
      const answer = await send(`${this.#url}/v1/chat/completions`, {
        agent: this.#agent,
        headers: {
          'x-service-api-key': this.#keyOf(kind, loss),
          'x-service-provider': 'mock',
          'x-service-trace-id': trace,
        },
        body: { model, messages: [{ role: 'user', content: 'Hello' }], stream: isStream },
      });
      gateway =
        answer.headers['x-service-trace-id'] === trace ? String(answer.headers['x-gateway']) : undefined;
      const whole = isStream ? /"finish_reason":"stop"[^]*data: \[DONE\]\n\n$/ : /"finish_reason":"stop"/;
      if (answer.status !== 200) outcome = `${answer.status} ${codeOf(answer.text)}`;
      else outcome = answer.complete && whole.test(answer.text) ? 'served' : 'cut';
    } catch (error) {
      outcome = `no answer: ${String(error)}`;
    }
    this.sent.push({ trace, kind, loss, sentAt, endedAt: performance.now(), outcome, gateway });
  }
}

function codeOf(text: string): string {
  return /"code":\s*"([a-z_]+)"/.exec(text)?.[1] ?? text.slice(0, 100);
}

describe(
  `a fleet that loses its stores in turn (seed ${seed})`,
  { skip: onNode || redisMissing || postgresMissing || chdbMissing, timeout: 400_000 },
  () => {
    const between = chance(seed);
    let redis: RedisServer;
    let engine: EmbeddedChdb;
    let closeEngine: () => Promise<void>;
    let front: Front;
    let fleet: Fleet;
    let balancer: Balancer;
    let store: ClickHouseClient;
    let load: Load;
    /** Secrets by kind and loss; ids of the keys that pay. */
    const keys = new Map<string, { readonly key: string; readonly id: string }>();
    /** How many limits were decided without Redis: by gateway in all, and during each loss. */
    const decidedAlone = new Map<string, number>();
    const aloneDuring = new Map<Loss, number>();
    /** When which gateway was killed, and had ended. */
    let killed: { readonly gateway: string; readonly from: number; readonly until: number } | undefined;

    const first = (): string => fleet.gateways[0]!.url;
    const rows = async <Row>(query: string): Promise<Row[]> =>
      (await store.query({ query, format: 'JSONEachRow' })).json<Row>();

    before(async () => {
      redis = await startRedis();
      ({ engine, close: closeEngine } = await startTestChdb());
      front = await startFront(Number(new URL(engine.url).port));
      const { url, username, password } = engine;
      store = createClient({ url, username, password, database: 'weir' });
      fleet = await startFleet({
        size,
        configuration: {
          server: { workers },
          storage: {
            counters: { url: redis.url },
            redis_budget_ms: redisBudgetMs,
            analytics: { url: `${front.url}/weir`, username, password },
            journal: { ship_ms: 400 },
          },
          prices: { models: [{ provider: 'mock', model: '*', input: 3.100007, output: 12.500003 }] },
          pipelines: [
            { name: 'admin', match: { routes: 'contributed' }, plugins: ['auth', 'management'] },
            {
              name: 'gateway',
              match: { path: '/**' },
              plugins: ['auth', 'policies', 'provider', { logger: { bodies: true } }],
            },
          ],
        },
      });
      const ports = fleet.gateways.map(({ port }) => port);
      const start = haproxyMissing === false ? startHaproxy : startStandIn;
      balancer = await start(ports, { redispatch: true });
      await eventually(async () => (await balancer.up()) === size || undefined);
    });
    after(async () => {
      await load?.stop();
      await balancer?.stop();
      await stopEverything();
      await fleet?.server.stop();
      await store?.close();
      await front?.close();
      await closeEngine?.();
      await redis?.stop();
    });

    const losses: Readonly<Record<Exclude<Loss, 'nothing' | 'nothing more'>, () => Promise<void>>> = {
      async redis() {
        redis.pause();
        await pause(between(1000, 4000));
        await redis.kill();
        await pause(between(500, 3000));
        await redis.start();
      },
      async postgres() {
        fleet.server.pause();
        await pause(between(500, 3000));
        await fleet.server.kill();
        await pause(between(500, 4000));
        await fleet.server.start();
      },
      async gateway() {
        const index = Math.floor(between(0, size));
        const from = performance.now();
        await fleet.kill(index);
        killed = { gateway: String(index), from, until: performance.now() };
        await pause(between(500, 3000));
        await fleet.start(index);
      },
      async analytics() {
        process.kill(engine.pid!, 'SIGSTOP');
        await pause(between(500, 3000));
        front.away(true);
        process.kill(engine.pid!, 'SIGKILL');
        await pause(between(500, 3000));
        await eventually(() => (engine.trouble === undefined && engine.restarts > 0) || undefined);
        front.away(false);
      },
    };

    test('no request fails that may not, limits hold, and every row is stored once', async (t) => {
      await makeKeys();
      load = new Load(balancer.url, (kind, loss) =>
        kind === 'window' || kind === 'budget' ? keys.get(`${kind} ${loss}`)!.key : keys.get('paid')!.key,
      );
      await untilUsedUp();
      await countDecidedAlone();
      for (const loss of shuffled(Object.keys(losses) as (keyof typeof losses)[])) {
        load.loss = loss;
        const at = performance.now();
        await pause(1500);
        await losses[loss]();
        await untilWell();
        const well = performance.now();
        await untilUsedUp();
        await countDecidedAlone();
        t.diagnostic(
          `${loss}: well again after ${seconds(well - at)}, limits used up after ${seconds(performance.now() - at)}`,
        );
      }
      load.loss = 'nothing more';
      await untilUsedUp();
      await countDecidedAlone();
      await load.stop();

      checkOutcomes(t);
      checkLimits(t);
      await checkRows(t);
      await checkMoney(t);
      for (const gateway of fleet.gateways) {
        const ended = await gateway.stop();
        assert.equal(ended.code, 0, ended.stderr);
      }
    });

    async function makeKeys(): Promise<void> {
      const { id: workspace_id } = await operate(first(), {
        path: '/admin/workspaces',
        body: { name: 'Chaos' },
      });
      const make = async (name: string, limits: object): Promise<void> => {
        const body = { name, workspace_id, scopes: ['completions.write'], ...limits };
        keys.set(name, await operate(first(), { path: '/api-keys/workspace/service', body }));
      };
      await make('paid', { usage_limits: { type: 'cost', credit_limit: 1000 } });
      for (const loss of ['nothing', ...Object.keys(losses), 'nothing more']) {
        await make(`window ${loss}`, {
          rate_limits: [{ type: 'requests', unit: 'rph', value: windowLimit }],
        });
        await make(`budget ${loss}`, { usage_limits: { type: 'requests', credit_limit: budgetLimit } });
      }
      for (const { url } of fleet.gateways)
        for (const { key } of keys.values())
          await eventually(async () =>
            (await call(url, { path: '/api-keys', key })).status === 401 ? undefined : true,
          );
    }

    function shuffled<One>(list: readonly One[]): readonly One[] {
      const left = [...list];
      return list.map(() => left.splice(Math.floor(between(0, left.length)), 1)[0]!);
    }

    /** Every gateway has all it needs. */
    async function untilWell(): Promise<void> {
      await eventually(async () => (await balancer.up()) === size || undefined);
      for (const { url } of fleet.gateways) {
        let said = '';
        await eventually(
          async () => {
            const answer = await send(`${url}/readyz`);
            said = answer.text;
            return (answer.status === 200 && answer.json().degraded.length === 0) || undefined;
          },
          () => `a gateway that is ready: ${said}`,
        );
      }
    }

    /** The limits of this loss admit no more requests. */
    async function untilUsedUp(): Promise<void> {
      const from = load.sent.length;
      const { loss } = load;
      await eventually(
        () => {
          const latest = load.sent.slice(from).filter((one) => one.loss === loss);
          return (
            (['window', 'budget'] as const).every((kind) => {
              const last = latest.filter((one) => one.kind === kind).slice(-10);
              return last.length === 10 && last.every(({ outcome }) => outcome === refusals[kind]);
            }) || undefined
          );
        },
        () => `limits that are used up: ${JSON.stringify(load.sent.slice(-10))}`,
      );
    }

    async function countDecidedAlone(): Promise<void> {
      let during = 0;
      for (const { url } of fleet.gateways) {
        const now = sumOfSeries((await send(`${url}/metrics`)).text, 'weir_limits_without_store_total');
        const before = decidedAlone.get(url) ?? 0;
        // One that was started again counts anew.
        during += now < before ? now : now - before;
        decidedAlone.set(url, now);
      }
      aloneDuring.set(load.loss, during);
    }

    /** Tells every outcome, and fails for those that no document allows. */
    function checkOutcomes(t: TestContext): void {
      const counts = new Map<string, number>();
      for (const { kind, loss, outcome } of load.sent) {
        const name = `${loss}, ${kind}: ${outcome}`;
        counts.set(name, (counts.get(name) ?? 0) + 1);
      }
      for (const [name, count] of [...counts].sort()) t.diagnostic(`${name}: ${count}`);
      const unanswered = load.sent.filter((one) => !isAnswer(one));
      const failed = unanswered.filter((one) => !isUnderWayAtKilled(one));
      t.diagnostic(
        `${load.sent.length} requests, ${failed.length} failed, ${unanswered.length - failed.length} were under way at the killed gateway`,
      );
      assert.deepEqual(failed.slice(0, 5), []);
      assert.equal(load.held, 0, 'requests that waited for too long');
    }

    /** Served, or refused by a limit of its key. */
    function isAnswer({ kind, outcome }: Sent): boolean {
      if (outcome === 'served') return true;
      if (kind === 'window') return outcome === refusals.window;
      return kind === 'budget' && (outcome === refusals.budget || outcome === refusals.window);
    }

    /** A balancer repeats nothing that it has sent. */
    function isUnderWayAtKilled({ sentAt, endedAt, gateway }: Sent): boolean {
      if (killed === undefined || sentAt > killed.until || endedAt < killed.from) return false;
      return gateway === undefined || gateway === killed.gateway;
    }

    /**
     * Exact while Redis answers. It may be late on a busy machine, and a killed gateway has not told Redis what its last
     * requests have used.
     */
    function checkLimits(t: TestContext): void {
      for (const [kind, limit] of [
        ['window', windowLimit],
        ['budget', budgetLimit],
      ] as const)
        for (const [loss, alone] of aloneDuring) {
          const ofKey = load.sent.filter((one) => one.kind === kind && one.loss === loss);
          const served = ofKey.filter(({ outcome }) => outcome === 'served').length;
          const unknown = ofKey.filter((one) => !isAnswer(one)).length;
          const untold = kind === 'budget' ? ofKey.filter(isInLastFlush).length : 0;
          // Without Redis the gateways take their shares; a window begins anew on the empty server.
          const times = kind === 'window' ? 3 : 2;
          const most = loss === 'redis' ? limit * times : limit + alone + untold;
          const found = `${kind}, ${loss}: ${served} of ${limit} served, ${unknown} unknown, ${untold} untold, ${alone} decisions without Redis`;
          assert.ok(served >= limit - unknown && served <= most, found);
          t.diagnostic(found);
        }
    }

    /** Each gateway has stored what it has accepted, and each answer has one row and one body. */
    async function checkRows(t: TestContext): Promise<void> {
      for (const { url } of fleet.gateways) await eventually(() => hasStoredAll(url), undefined, 60_000);
      const stored = await rows<{ trace: string; copies: number; bodies: number }>(`
        SELECT trace_id AS trace, toUInt32(count()) AS copies, toUInt32(countIf(id IN (SELECT id FROM bodies))) AS bodies
        FROM requests WHERE startsWith(trace_id, 'chaos-') GROUP BY trace`);
      const doubled = await rows('SELECT id FROM bodies GROUP BY id HAVING count() > 1');
      const byTrace = new Map(stored.map((row) => [row.trace, row]));
      const unstored = load.sent.filter((one) => {
        const row = byTrace.get(one.trace);
        return isAnswer(one) && !(row?.copies === 1 && row.bodies === 1);
      });
      const lost = unstored.filter((one) => !isInLastFlush(one));
      assert.deepEqual(lost.slice(0, 5), [], `${lost.length} answers do not have one row`);
      assert.deepEqual(
        [stored.filter(({ copies }) => copies > 1), doubled],
        [[], []],
        'rows are stored twice',
      );
      const traces = new Set(load.sent.map(({ trace }) => trace));
      assert.deepEqual(
        stored.filter(({ trace }) => !traces.has(trace)),
        [],
        'rows that nobody has asked for',
      );
      t.diagnostic(
        `${stored.length} rows of ${load.sent.length} requests are stored once; with the last flush of the killed gateway went ${unstored.length}`,
      );
    }

    async function hasStoredAll(url: string): Promise<true | undefined> {
      const metrics = (await send(`${url}/metrics`)).text;
      const count = (name: string): number => sumOfSeries(metrics, `weir_rows_${name}`);
      assert.equal(count('shed_total'), 0);
      const accepted = count('accepted_total');
      return (accepted > 0 && accepted === count('stored_total') && count('pending') === 0) || undefined;
    }

    function isInLastFlush({ endedAt, gateway }: Sent): boolean {
      return isOfKilled(gateway) && endedAt > killed!.from - lastFlushMs && endedAt <= killed!.until;
    }

    function isOfKilled(gateway: string | undefined): boolean {
      return killed !== undefined && gateway === killed.gateway;
    }

    /** Rows and roll-ups cost what their tokens do; the budget of the key has counted that, but for a killed second. */
    async function checkMoney(t: TestContext): Promise<void> {
      const { id } = keys.get('paid')!;
      const [sums] = await rows<Record<'prompt' | 'completion' | 'total' | 'rolled' | 'paid', string>>(`
        SELECT toString(sum(prompt_tokens)) AS prompt, toString(sum(completion_tokens)) AS completion,
          toString(sum(cost)) AS total, toString(sumIf(cost, api_key_id = '${id}')) AS paid,
          (SELECT toString(sum(cost_sum)) FROM usage_days WHERE dimension = '*') AS rolled
        FROM requests`);
      const tokens = BigInt(sums!.prompt) * 3_100_007n + BigInt(sums!.completion) * 12_500_003n;
      assert.deepEqual([picos(sums!.total), picos(sums!.rolled)], [tokens, tokens]);
      const inDoubt = load.sent.filter(
        ({ kind, gateway, endedAt }) =>
          (kind === 'paid' || kind === 'stream') &&
          (gateway === undefined || isOfKilled(gateway)) &&
          endedAt > killed!.from - lastCountMs &&
          endedAt <= killed!.until,
      );
      const paid = Number(sums!.paid);
      const most = inDoubt.length * mostDollars;
      let counted = 0;
      await eventually(
        async () => {
          counted = (await operate(first(), { path: `/api-keys/${id}` })).current_usage as number;
          return Math.abs(counted - paid) <= most + 1e-5 || undefined;
        },
        () => `${paid} dollars in a budget that has counted ${counted}; ${most} may be missing`,
      );
      t.diagnostic(
        `rows cost ${paid} dollars, the budget has counted ${counted}; ${inDoubt.length} requests ended in the last second of the killed gateway`,
      );
    }
  },
);

const refusals = { window: '429 rate_limited', budget: '412 budget_exhausted' } as const;

/** Dollars in 10⁻¹² of them. */
function picos(dollars: string): bigint {
  const [whole = '', fraction = ''] = dollars.split('.');
  return BigInt(whole + fraction.padEnd(12, '0'));
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
