import assert from 'node:assert/strict';
import { after, before, describe, test, type TestContext } from 'node:test';
import { createMemoryCounters } from '../../../storage/memory/counters.ts';
import { openRedis } from '../../../storage/redis/open-redis.ts';
import { createRedisCounters } from '../../../storage/redis/open-shared-stores.ts';
import { ManualClock } from '../../../tests/conformance/manual-clock.ts';
import { patientClock, redisMissing, type RedisServer, startRedis } from '../../../tests/kit/redis-server.ts';
import {
  type Line,
  recordingLog,
  RecordingMetrics,
} from '../../lifecycle/recording-services.test-support.ts';
import type { Counters } from '../../ports/counters.ts';
import type { BreakerSettings, PlanLeaf } from '../plan/plan-node.ts';
import { cooldownAtMost, cooldownMs, group, leafWith } from './breaker-leaf.test-support.ts';
import { Breakers, type AttemptOutcome } from './breakers.ts';

/** Counters of one kind, and a way to let what was sent to them arrive. */
interface Store {
  readonly clock: ManualClock;
  readonly counters: Counters;
  /** Another process with the same store. */
  another(): Promise<Counters>;
  settle(): Promise<void>;
}

type OpenStore = (t: TestContext) => Promise<Store>;

const openMemory: OpenStore = (t) => {
  const clock = new ManualClock();
  const counters = createMemoryCounters({ clock, log: recordingLog([]) });
  t.after(() => counters.close());
  return Promise.resolve({
    clock,
    counters,
    another: () => Promise.resolve(counters),
    settle: () => Promise.resolve(),
  });
};

let server: RedisServer;
const openShared: OpenStore = async (t) => {
  const clock = new ManualClock();
  const pending: Promise<unknown>[] = [];
  const another = async (): Promise<Counters> => {
    const redis = await openRedis({ url: server.url, clock: patientClock(), log: recordingLog([]) });
    t.after(() => redis.close());
    const local = createMemoryCounters({ clock, log: recordingLog([]) });
    t.after(() => local.close());
    const counters = createRedisCounters({ redis, local, now: () => clock.now() });
    const noted = <T>(value: T): T => {
      pending.push(Promise.resolve(value).catch(() => undefined));
      return value;
    };
    return {
      take: (windows, amount, onFailure) => noted(counters.take(windows, amount, onFailure)),
      adjust: (windows, delta) => noted(counters.adjust(windows, delta)),
    };
  };
  const settle = async (): Promise<void> => {
    while (pending.length > 0) await pending.shift();
  };
  return { clock, counters: await another(), another, settle };
};

/** One gateway process over a store. */
class Gateway {
  readonly lines: Line[] = [];
  readonly metrics = new RecordingMetrics();
  readonly breakers: Breakers;
  private readonly store: Store;

  constructor(store: Store, counters = store.counters, apart?: string) {
    this.store = store;
    const { clock } = store;
    const log = recordingLog(this.lines);
    this.breakers = new Breakers({ counters, clock, log, metrics: this.metrics, ...(apart && { apart }) });
  }

  async attempt(leaf: PlanLeaf, ...results: readonly (number | 'abandoned')[]): Promise<void> {
    for (const result of results) {
      this.breakers.begin(leaf, group)?.end(result === 'abandoned' ? result : { status: result });
      await this.store.settle();
    }
  }

  /** Asks until what the store knows has arrived. */
  async isOpen(leaf: PlanLeaf): Promise<boolean> {
    this.breakers.isOpen(leaf, group);
    await this.store.settle();
    return this.breakers.isOpen(leaf, group);
  }
}

function suite(name: string, open: OpenStore): void {
  describe(name, () => {
    counting(open);
    probing(open);
    sharing(open);
  });
}

function counting(open: OpenStore): void {
  const cases: readonly [string, Partial<BreakerSettings>, readonly (number | 'abandoned')[], boolean][] = [
    ['opens with the failure that reaches the threshold', {}, [500, 502, 503], true],
    ['is closed below the threshold', {}, [500, 502], false],
    ['good answers in between do not matter', {}, [500, 200, 500, 201, 500], true],
    ['a timeout is a failure', {}, [408, 408, 408], true],
    ['other refusals are none', {}, [400, 401, 404, 429, 446], false],
    ['only the codes given are', { failureStatusCodes: new Set([429]) }, [500, 408, 429, 429], false],
    ['the codes given are', { failureStatusCodes: new Set([429]) }, [429, 429, 429], true],
    ['a client that left never counts', { failureStatusCodes: new Set([499]) }, [499, 499, 499], false],
    ['abandoned attempts never count', {}, ['abandoned', 'abandoned', 'abandoned', 500, 500], false],
    [
      'opens at the share of failures',
      { failureThreshold: 100, failureThresholdPercentage: 50, minimumRequests: 4 },
      [200, 200, 500, 500],
      true,
    ],
    [
      'is closed below the share',
      { failureThreshold: 100, failureThresholdPercentage: 50, minimumRequests: 4 },
      [200, 200, 200, 500, 500],
      false,
    ],
    [
      'waits for enough requests',
      { failureThreshold: 100, failureThresholdPercentage: 50, minimumRequests: 4 },
      [500, 500, 500],
      false,
    ],
    [
      'the threshold holds beside a share',
      { failureThresholdPercentage: 90, minimumRequests: 100 },
      [200, 500, 500, 500],
      true,
    ],
  ];
  for (const [name, breaker, results, expected] of cases)
    test(name, async (t) => {
      const gateway = new Gateway(await open(t));
      const leaf = leafWith(breaker);
      await gateway.attempt(leaf, ...results);
      assert.equal(await gateway.isOpen(leaf), expected);
    });

  test('a canary of the configuration has breakers of its own, also where counts are shared', async (t) => {
    const store = await open(t);
    const [serving, canary] = [new Gateway(store), new Gateway(store, store.counters, 'canary:abc')];
    const leaf = leafWith({});
    await canary.attempt(leaf, 500, 500, 500);
    assert.deepEqual([await canary.isOpen(leaf), await serving.isOpen(leaf)], [true, false]);
    await serving.attempt(leaf, 500, 500);
    assert.equal(await serving.isOpen(leaf), false);
    await serving.attempt(leaf, 500);
    assert.equal(await serving.isOpen(leaf), true);
  });

  test('failures count for a minute', async (t) => {
    const store = await open(t);
    const gateway = new Gateway(store);
    const leaf = leafWith({});
    await gateway.attempt(leaf, 500, 500);
    store.clock.advance(61_001);
    await gateway.attempt(leaf, 500, 500);
    assert.equal(await gateway.isOpen(leaf), false);
    store.clock.advance(59_000);
    await gateway.attempt(leaf, 500);
    assert.equal(await gateway.isOpen(leaf), true);
  });

  test('a target without a breaker never opens and is not remembered', async (t) => {
    const gateway = new Gateway(await open(t));
    const leaf = leafWith(undefined);
    await gateway.attempt(leaf, 500, 500, 500);
    assert.equal(gateway.breakers.begin(leaf, group), undefined);
    assert.equal(gateway.breakers.isOpen(leaf, group), false);
    assert.equal(gateway.breakers.size, 0);
  });

  test('organisations have breakers of their own', async (t) => {
    const store = await open(t);
    const gateway = new Gateway(store);
    const leaf = leafWith({});
    await gateway.attempt(leaf, 500, 500, 500);
    gateway.breakers.begin(leaf, 'org-2')?.end({ status: 500 });
    await store.settle();
    assert.equal(gateway.breakers.isOpen(leaf, 'org-2'), false);
    assert.equal(await gateway.isOpen(leaf), true);
  });

  test('ending an attempt twice counts once', async (t) => {
    const store = await open(t);
    const gateway = new Gateway(store);
    const leaf = leafWith({ failureThreshold: 2 });
    const attempt = gateway.breakers.begin(leaf, group);
    attempt?.end({ status: 500 });
    attempt?.end({ status: 500 });
    await store.settle();
    assert.equal(await gateway.isOpen(leaf), false);
  });
}

function probing(open: OpenStore): void {
  async function opened(t: TestContext): Promise<{ store: Store; gateway: Gateway; leaf: PlanLeaf }> {
    const store = await open(t);
    const gateway = new Gateway(store);
    const leaf = leafWith({});
    await gateway.attempt(leaf, 500, 500, 500);
    return { store, gateway, leaf };
  }

  test('is open for the cooldown, then lets one request through at a time', async (t) => {
    const { store, gateway, leaf } = await opened(t);
    store.clock.advance(cooldownMs - 1);
    assert.equal(await gateway.isOpen(leaf), true);
    store.clock.advance(cooldownAtMost - cooldownMs + 1);
    assert.equal(await gateway.isOpen(leaf), false);
    assert.equal(await gateway.isOpen(leaf), false, 'asking takes no place');
    const probe = gateway.breakers.begin(leaf, group);
    assert.equal(await gateway.isOpen(leaf), true);
    await gateway.attempt(leaf, 200);
    assert.equal(await gateway.isOpen(leaf), true, 'another one takes no place either');
    probe?.end({ status: 200 });
    await store.settle();
    assert.equal(await gateway.isOpen(leaf), false);
  });

  const ends: readonly [string, AttemptOutcome, { open: boolean; place: boolean }][] = [
    ['a good answer closes it', { status: 200 }, { open: false, place: false }],
    ['an answer that is no failure closes it', { status: 404 }, { open: false, place: false }],
    ['a failure opens it again', { status: 500 }, { open: true, place: false }],
    ['an abandoned probe frees the place', 'abandoned', { open: false, place: true }],
    ['a client that left frees the place', { status: 499 }, { open: false, place: true }],
  ];
  for (const [name, result, expected] of ends)
    test(name, async (t) => {
      const { store, gateway, leaf } = await opened(t);
      store.clock.advance(cooldownAtMost);
      gateway.breakers.begin(leaf, group)?.end(result);
      await store.settle();
      assert.equal(await gateway.isOpen(leaf), expected.open);
      const next = gateway.breakers.begin(leaf, group);
      assert.equal(await gateway.isOpen(leaf), expected.open || expected.place);
      next?.end('abandoned');
      store.clock.advance(cooldownAtMost);
      assert.equal(await gateway.isOpen(leaf), false);
    });

  test('closing forgets the failures', async (t) => {
    const { store, gateway, leaf } = await opened(t);
    store.clock.advance(cooldownAtMost);
    await gateway.attempt(leaf, 200, 500, 500);
    assert.equal(await gateway.isOpen(leaf), false);
    await gateway.attempt(leaf, 500);
    assert.equal(await gateway.isOpen(leaf), true);
  });

  test('attempts that began before say nothing about the target as it is now', async (t) => {
    const store = await open(t);
    const gateway = new Gateway(store);
    const leaf = leafWith({});
    const late = [1, 2, 3, 4].map(() => gateway.breakers.begin(leaf, group));
    await gateway.attempt(leaf, 500, 500, 500);
    late[0]?.end({ status: 200 });
    await store.settle();
    assert.equal(await gateway.isOpen(leaf), true, 'a late good answer closes nothing');
    store.clock.advance(cooldownAtMost);
    await gateway.attempt(leaf, 200);
    for (const attempt of late) attempt?.end({ status: 500 });
    await store.settle();
    assert.equal(await gateway.isOpen(leaf), false, 'late failures open nothing');
  });

  test('an attempt past an open breaker, because all are open, changes nothing', async (t) => {
    const { store, gateway, leaf } = await opened(t);
    const past = gateway.breakers.begin(leaf, group);
    store.clock.advance(cooldownAtMost);
    const probe = gateway.breakers.begin(leaf, group);
    past?.end({ status: 200 });
    await store.settle();
    assert.equal(await gateway.isOpen(leaf), true, 'the probe is still under way');
    probe?.end({ status: 500 });
    await store.settle();
    assert.equal(await gateway.isOpen(leaf), true);
  });
}

function sharing(open: OpenStore): void {
  test('gateways count failures together and learn within a second that it is open', async (t) => {
    const store = await open(t);
    const [one, two] = [new Gateway(store), new Gateway(store, await store.another())];
    const leaf = leafWith({});
    assert.equal(await two.isOpen(leaf), false);
    await one.attempt(leaf, 500, 500);
    await two.attempt(leaf, 500);
    assert.equal(await two.isOpen(leaf), true);
    store.clock.advance(1000);
    assert.equal(await one.isOpen(leaf), true);
    assert.match(one.lines.at(-1)?.message ?? '', /open: another gateway has opened it/);
    store.clock.advance(cooldownAtMost - 1000);
    assert.equal(await one.isOpen(leaf), false);
    assert.equal(await two.isOpen(leaf), false);
  });

  test('a probe that failed elsewhere shuts it here, one under way included', async (t) => {
    const store = await open(t);
    const [one, two] = [new Gateway(store), new Gateway(store, await store.another())];
    const leaf = leafWith({});
    await one.attempt(leaf, 500, 500, 500);
    assert.equal(await two.isOpen(leaf), true);
    store.clock.advance(cooldownAtMost);
    const slow = two.breakers.begin(leaf, group);
    await one.attempt(leaf, 500);
    store.clock.advance(1000);
    assert.equal(await two.isOpen(leaf), true);
    slow?.end({ status: 200 });
    await store.settle();
    assert.equal(await two.isOpen(leaf), true);
    assert.equal(await one.isOpen(leaf), true);
  });

  test('a gateway that begins later, or has forgotten, learns it before its second question', async (t) => {
    const store = await open(t);
    const leaf = leafWith({});
    await new Gateway(store).attempt(leaf, 500, 500, 500);
    const late = new Gateway(store, await store.another());
    late.breakers.isOpen(leaf, group);
    await store.settle();
    assert.equal(late.breakers.isOpen(leaf, group), true);
  });
}

suite('breakers over counters in memory', openMemory);

describe('with a Redis server', { skip: redisMissing }, () => {
  before(async () => {
    server = await startRedis();
  });
  after(() => server.stop());
  suite('breakers over counters in Redis', openShared);

  test('a server that is gone delays and breaks nothing: the process counts by itself', async (t) => {
    const lone = await startRedis();
    t.after(() => lone.stop());
    const clock = new ManualClock();
    const redis = await openRedis({ url: lone.url, clock: patientClock(1), log: recordingLog([]) });
    t.after(() => redis.close());
    const local = createMemoryCounters({ clock, log: recordingLog([]) });
    t.after(() => local.close());
    const counters = createRedisCounters({ redis, local });
    await lone.kill();
    const breakers = new Breakers({ counters, clock });
    const leaf = leafWith({});
    for (let i = 0; i < 3; i++) breakers.begin(leaf, group)?.end({ status: 500 });
    for (let i = 0; i < 200 && !breakers.isOpen(leaf, group); i++)
      await new Promise((resolve) => setTimeout(resolve, 10));
    assert.equal(breakers.isOpen(leaf, group), true);
  });
});
