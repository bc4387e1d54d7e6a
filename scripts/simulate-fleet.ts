// A fleet of gateways on virtual time: `node --import tsx scripts/simulate-fleet.ts [--replicas N] [--rate N]`. The
// limiter's counters, the breakers and the journals are the gateway's own; the network, the providers and the stores
// are played. Prints what every phase brought, and fails when a promise is broken. Minutes pass in seconds.
import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { leafWith } from '../core/routing/attempts/breaker-leaf.test-support.ts';
import { Breakers } from '../core/routing/attempts/breakers.ts';
import type { Counters, Decision, Window } from '../core/ports/counters.ts';
import type { Journal } from '../core/ports/journal.ts';
import type { Log } from '../core/ports/log.ts';
import { openJournal } from '../storage/journal/journal.ts';
import { createMemoryCounters } from '../storage/memory/counters.ts';
import { WithoutStore } from '../storage/redis/without-store.ts';
import { DeduplicatingStore } from '../tests/conformance/deduplicating-store.ts';
import { ManualClock } from '../tests/conformance/manual-clock.ts';
import { numberOption } from './number-option.ts';

const { values } = parseArgs({
  options: { replicas: { type: 'string', default: '12' }, rate: { type: 'string', default: '600' } },
});
const replicas = numberOption('replicas', values.replicas, { least: 3, most: 60, isWhole: true });
const rate = numberOption('rate', values.rate, { least: 10, most: 5000, isWhole: true });

const zones = 3;
const stepMs = 100;
/** Requests per minute that all gateways together admit of one key, which gets 2.5 times as many. */
const limit = rate * 6;
const limitMs = 60_000;
const cooldownMs = 10_000;
const failureThreshold = 5;
const primary = leafWith({ failureThreshold, cooldownMs }, 'fleet#primary');
const secondary = leafWith({ failureThreshold, cooldownMs }, 'fleet#secondary');
const quiet: Log = { debug: ignore, info: ignore, warn: ignore, error: ignore, child: () => quiet };

/** What goes wrong in a phase. */
interface Phase {
  readonly name: string;
  readonly seconds: number;
  readonly redisAway?: true;
  readonly analytics?: 'away' | 'lost-answer';
  /** The first provider answers 503. */
  readonly providerDown?: true;
  /** The gateways of the first zone are killed at its beginning, and started again at its end. */
  readonly zoneGone?: true;
}

const phases: readonly Phase[] = [
  { name: 'all is well', seconds: 90 },
  { name: 'Redis is away', seconds: 60, redisAway: true },
  { name: 'Redis is back', seconds: 90 },
  { name: 'the first provider is down', seconds: 45, providerDown: true },
  { name: 'the analytics store is away', seconds: 60, analytics: 'away' },
  { name: 'the analytics store loses answers', seconds: 30, analytics: 'lost-answer' },
  { name: 'a zone is gone', seconds: 60, zoneGone: true },
  { name: 'all is well again', seconds: 90 },
];

/** Counts of one phase. */
class Tally {
  requests = 0;
  refused = 0;
  failed = 0;
  /** Attempts at a provider that was down. */
  wasted = 0;
  /** Most admitted requests of the limited key within any minute that ends in this phase, over its limit. */
  over = 0;
  /** Refusals of the limited key although the last minute had room. */
  unused = 0;
  waiting = 0;
}

/** The shared store of counts: the counters in memory, which all replicas use while it is there. */
class SharedStore {
  isAway = false;
  readonly counters: Counters;

  constructor(clock: ManualClock) {
    this.counters = createMemoryCounters({ clock, log: quiet });
  }
}

/** The counters of one replica: those of the store, or its share in its own memory. */
class ReplicaCounters implements Counters {
  readonly #store: SharedStore;
  readonly #local: Counters;
  readonly #without = new WithoutStore();

  constructor(store: SharedStore, clock: ManualClock) {
    this.#store = store;
    this.#local = createMemoryCounters({ clock, log: quiet });
  }

  take(windows: readonly Window[], amount: number): Decision | Promise<Decision> {
    const { counters, isAway } = this.#store;
    if (!isAway) return counters.take(windows, amount);
    const share = windows.map((window) => ({ ...window, limit: Math.ceil(window.limit / replicas) }));
    return this.#without.decide<Decision | Promise<Decision>>('local', {
      local: () => this.#local.take(share, amount),
      open: () => ({ allowed: true, refusedBy: -1, windows: [] }),
    });
  }

  adjust(windows: readonly Window[], delta: number): void {
    const { counters, isAway } = this.#store;
    void (isAway ? this.#local : counters).adjust(windows, delta);
  }
}

class Replica {
  readonly zone: number;
  isUp = true;
  journal: Journal | undefined;
  readonly folder: string;
  readonly counters: Counters;
  breakers: Breakers;
  readonly #fleet: Fleet;

  constructor(fleet: Fleet, number: number) {
    this.#fleet = fleet;
    this.zone = number % zones;
    this.folder = path.join(fleet.folder, String(number));
    this.counters = new ReplicaCounters(fleet.store, fleet.clock);
    this.breakers = new Breakers({ counters: this.counters, clock: fleet.clock });
  }

  async start(): Promise<void> {
    const { clock, analytics } = this.#fleet;
    this.journal = await openJournal({
      directory: this.folder,
      insert: analytics.insert,
      ...{ clock, log: quiet, flushMs: 100, shipMs: 1000, sync: 'none', maxBytes: 256 * 1024 * 1024 },
    });
    this.breakers = new Breakers({ counters: this.counters, clock });
    this.isUp = true;
  }

  /** Flushed rows stay on the disk of a process that is killed, and the next start ships them. */
  async kill(): Promise<void> {
    this.isUp = false;
    await this.journal?.flush();
    const journal = this.journal;
    this.journal = undefined;
    await this.#fleet.clock.passUntil(journal?.close(0));
  }
}

class Fleet {
  readonly clock = new ManualClock();
  readonly store = new SharedStore(this.clock);
  readonly analytics = new DeduplicatingStore();
  readonly replicas: Replica[] = [];
  /** Times of admitted requests of the limited key, of the last minute. */
  readonly admitted: number[] = [];
  accepted = 0;
  isProviderDown = false;
  readonly folder: string;
  #next = 0;
  #owed = 0;
  #seed = 1;

  constructor(folder: string) {
    this.folder = folder;
    for (let number = 0; number < replicas; number++) this.replicas.push(new Replica(this, number));
  }

  async run(phase: Phase): Promise<Tally> {
    const tally = new Tally();
    this.store.isAway = phase.redisAway === true;
    this.analytics.mood = phase.analytics ?? 'up';
    this.isProviderDown = phase.providerDown === true;
    const zone = phase.zoneGone === true ? this.replicas.filter((one) => one.zone === 0) : [];
    for (const replica of zone) await replica.kill();
    for (let steps = (phase.seconds * 1000) / stepMs; steps > 0; steps--) {
      this.#owed += (rate * stepMs) / 1000;
      for (; this.#owed >= 1; this.#owed--) await this.#request(tally);
      await this.clock.pass(stepMs);
    }
    tally.waiting = this.accepted - this.analytics.rows.requests.length;
    for (const replica of zone) await replica.start();
    return tally;
  }

  /** The balancer knows which replicas are ready. */
  async #request(tally: Tally): Promise<void> {
    let replica: Replica;
    do replica = this.replicas[this.#next++ % replicas] as Replica;
    while (!replica.isUp);
    tally.requests++;
    if (this.#random() < 0.25 && !(await this.#admit(replica, tally))) return;
    const status = this.#ask(replica, tally);
    if (status !== 200) tally.failed++;
    replica.journal?.append('requests', JSON.stringify({ n: this.accepted, status }));
    this.accepted++;
  }

  /** The same numbers in every run (Park and Miller). */
  #random(): number {
    this.#seed = (this.#seed * 48_271) % 2_147_483_647;
    return this.#seed / 2_147_483_647;
  }

  async #admit(replica: Replica, tally: Tally): Promise<boolean> {
    const now = this.clock.now();
    while ((this.admitted[0] ?? now) <= now - limitMs) this.admitted.shift();
    const window: Window = { key: 'rpm:key', group: 'fleet', limit, windowMs: limitMs };
    if ((await replica.counters.take([window], 1)).allowed) {
      this.admitted.push(now);
      tally.over = Math.max(tally.over, this.admitted.length - limit);
      return true;
    }
    tally.refused++;
    // A window of 60 parts counts a request up to one part longer.
    if (this.admitted.length + this.#recent(limitMs / 60) < limit) tally.unused++;
    return false;
  }

  /** Admitted requests that may have left the minute within the last part. */
  #recent(partMs: number): number {
    return Math.ceil((limit * partMs) / limitMs) + (rate * partMs) / 1000;
  }

  #ask({ breakers }: Replica, tally: Tally): number {
    for (const leaf of [primary, secondary]) {
      if (breakers.isOpen(leaf, 'fleet')) continue;
      const attempt = breakers.begin(leaf, 'fleet');
      const status = leaf === primary && this.isProviderDown ? 503 : 200;
      attempt?.end({ status });
      if (status === 200) return status;
      tally.wasted++;
    }
    return 503;
  }
}

async function main(): Promise<void> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'weir-fleet-'));
  try {
    const fleet = new Fleet(folder);
    for (const replica of fleet.replicas) await replica.start();
    console.log(`${replicas} replicas in ${zones} zones, ${rate} requests/s, ${limit} a minute of one key`);
    console.log(
      'phase                              requests  refused  over limit  unused  failed  wasted  rows waiting',
    );
    const broken: string[] = [];
    for (const phase of phases) {
      const tally = await fleet.run(phase);
      const cells = [
        tally.requests,
        tally.refused,
        tally.over,
        tally.unused,
        tally.failed,
        tally.wasted,
        tally.waiting,
      ];
      const widths = [8, 8, 11, 7, 7, 7, 13];
      console.log(
        `${phase.name.padEnd(35)}${cells.map((cell, at) => String(cell).padStart(widths[at] ?? 8)).join(' ')}`,
      );
      broken.push(...brokenPromises(phase, tally).map((text) => `${phase.name}: ${text}`));
    }
    for (const { journal } of fleet.replicas) await fleet.clock.passUntil(journal?.settle(600_000));
    const stored = fleet.analytics.rows.requests;
    const different = new Set(stored).size;
    console.log(`rows accepted ${fleet.accepted}, stored ${stored.length}, different ${different}`);
    if (stored.length !== fleet.accepted || different !== fleet.accepted)
      broken.push('rows accepted are not rows stored, each once');
    for (const { journal } of fleet.replicas) await fleet.clock.passUntil(journal?.close(0));
    for (const text of broken) console.log(`BROKEN ${text}`);
    process.exitCode = broken.length === 0 ? 0 : 1;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** What docs/scaling.md promises of a phase. */
function brokenPromises(phase: Phase, { over, unused, failed, wasted }: Tally): string[] {
  const broken: string[] = [];
  const attempts = Math.ceil((phase.seconds * 1000) / cooldownMs + 1) * replicas + failureThreshold * 2;
  if (failed > 0) broken.push(`${failed} requests failed although a provider answers`);
  if (wasted > attempts) broken.push(`${wasted} attempts at a provider that is down, of ${attempts} allowed`);
  // While Redis is away each replica has its share, beside what the minute before has admitted.
  const allowedOver = phase.redisAway === true || phase.name === 'Redis is back' ? limit + replicas : 0;
  if (over > allowedOver) broken.push(`${over} requests over the limit, ${allowedOver} allowed`);
  if (phase.redisAway !== true && phase.zoneGone !== true && unused > 0)
    broken.push(`${unused} refusals although the minute had room`);
  return broken;
}

function ignore(): void {
  // Nothing is logged.
}

await main();
