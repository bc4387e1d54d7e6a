// Composition root: the workers of a gateway, in the parent's view.
import cluster, { type Worker } from 'node:cluster';
import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { type CollectedMetrics, totalsOf } from '../../adapters/telemetry/prometheus.ts';
import type { ConfigSource } from '../../core/config/config-source.ts';
import { loadConfig } from '../../core/config/load-config.ts';
import { readBytes } from '../../core/config/read-file.ts';
import type { GatewayConfig } from '../../core/config/schema.ts';
import type { CanaryReport } from '../../core/http/canary-gate.ts';
import type { CanaryFollowers } from '../../core/lifecycle/config-canaries.ts';
import type { Followers } from '../../core/lifecycle/reload.ts';
import { bounded } from '../../core/base/deadline.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import { dataFolderHolder } from '../../storage/embedded/data-lock.ts';
import { privateFolders } from '../../storage/embedded/own-folder.ts';
import { messageOf } from '../../core/errors/gateway-error.ts';
import { Channel, type Offered } from '../../storage/parent/channel.ts';
import { serveStores, type SharedByParent } from '../../storage/parent/serve-stores.ts';
import { workerFolders, workersFolder } from './worker-journals.ts';
import {
  type CallsOfParent,
  type CallsOfWorker,
  type ConfigTexts,
  slotVariable,
  socketVariable,
  type WorkerState,
} from './worker-calls.ts';

/** Longest start of a worker on a busy machine. */
const startMs = 120_000;
/** Longest time to build a generation. */
const prepareMs = 60_000;
/** Longest wait of a write for the workers to know of it. */
const refreshMs = 2000;
const questionMs = 5000;
/** First wait before a worker that failed at once is started again, doubled up to the longest. */
const firstWaitMs = 1000;
const longestWaitMs = 60_000;
/** Interval of looking for rows that workers have left. */
const adoptEveryMs = 5000;
/** A worker that lived for so long is replaced at once. */
const healthyMs = 10_000;

/** True in a process that a parent has started to serve requests. */
export function isWorker(): boolean {
  return !('Deno' in globalThis) && cluster.isWorker && process.env[socketVariable] !== undefined;
}

/** Number of workers that the configuration asks for; 0 when this process serves alone. */
export function workerCount({ workers }: Pick<GatewayConfig['server'], 'workers'>): number {
  const count = workers === 'auto' ? availableParallelism() : workers;
  if (count === 1) return 0;
  if ('Deno' in globalThis)
    throw new Error(
      'server.workers is larger than 1, and Deno cannot share a port between processes. Set it to 1, or run the gateway on Node.',
    );
  return count;
}

/** Dependencies of a `WorkerPool`. */
interface WorkerPoolOptions {
  readonly count: number;
  /** The configuration's file. */
  readonly file: string;
  /** The data folder, absolute. */
  readonly data: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  readonly log: Log;
}

/** One worker process. */
interface Member {
  readonly slot: number;
  readonly process: Worker;
  readonly startedAt: number;
  channel: Channel<CallsOfWorker> | undefined;
  /** The configuration that it serves, and the one that it has built. */
  serves: ConfigTexts | undefined;
  prepared: ConfigTexts | undefined;
  /** Number of its folder; 0 before it has one. */
  folder: number;
  /** True once it listens. */
  isReady: boolean;
  /** Its latest metrics. */
  metrics: CollectedMetrics;
}

/** Starts workers, replaces those that end, and speaks for all of them. */
export class WorkerPool implements Followers, CanaryFollowers {
  readonly #options: WorkerPoolOptions;
  readonly #members = new Map<number, Member>();
  readonly #textsOf = new WeakMap<ConfigSource, ConfigTexts>();
  /** The configuration that serves, and the one that is being prepared. */
  #texts: ConfigTexts = new Map();
  #next: ConfigTexts = this.#texts;
  #stores: SharedByParent | undefined;
  #ship: (folder: string) => Promise<boolean> = () => Promise.resolve(false);
  #server: Server | undefined;
  #folder: { readonly path: string; remove(): Promise<void> } | undefined;
  /** What workers that have ended had counted. */
  #endedMetrics: Promise<CollectedMetrics> = Promise.resolve([]);
  #waitMs = firstWaitMs;
  #isStopping = false;
  /** Numbers of folders whose rows are being shipped. */
  readonly #adopting = new Set<number>();
  #cancelAdoption: () => void = () => undefined;
  #port = 0;
  #started: { resolve(): void; reject(error: Error): void } | undefined;

  constructor(options: WorkerPoolOptions) {
    this.#options = options;
  }

  /** Socket of the parent's gateway. Call `open` first. */
  get controlPlane(): string {
    return path.join(this.#folder?.path ?? '', 'parent.sock');
  }

  /**
   * Opens the socket that workers call on. `ship` ships the rows that a worker has left in its folder, and resolves
   * true when nothing is left.
   */
  async open(stores: SharedByParent, ship: (folder: string) => Promise<boolean>): Promise<void> {
    this.#stores = stores;
    this.#ship = ship;
    this.#folder = await privateFolders.socket(this.#options.data, 'workers.sock');
    this.#server = createServer((socket) => this.#connected(socket));
    const place = path.join(this.#folder.path, 'workers.sock');
    // Left by a parent that was killed: this process holds the lock of the data folder.
    for (const left of [place, this.controlPlane]) await rm(left, { force: true });
    await new Promise<void>((resolve, reject) => this.#server?.once('error', reject).listen(place, resolve));
    stores.resources?.onChange(() => void this.refresh());
  }

  /** `loadConfig`, with the texts kept for the workers; `draft` stands in the place of the main file. */
  readonly load = async (draft?: Uint8Array): ReturnType<typeof loadConfig> => {
    const texts = new Map<string, Uint8Array>();
    const main = path.resolve(this.#options.file);
    const loaded = await loadConfig(this.#options.file, {
      env: this.#options.environment,
      readFile: async (file) => {
        const bytes = draft !== undefined && file === main ? draft : await readBytes(file);
        texts.set(file, bytes);
        return bytes;
      },
    });
    if (loaded.ok) this.#textsOf.set(loaded.source, texts);
    return loaded;
  };

  /** Starts all workers; resolves with their port when every one of them listens. Rejects with one sentence. */
  async start(): Promise<number> {
    const { clock, count } = this.#options;
    // Each worker takes connections from the socket itself. Handed out in turn by the parent, a connection given to a
    // worker that ends before it takes it would hang for ever (Node 20 to 24).
    cluster.schedulingPolicy = cluster.SCHED_NONE;
    cluster.setupPrimary({ exec: process.argv[1] as string, args: process.argv.slice(2) });
    const all = new Promise<void>((resolve, reject) => (this.#started = { resolve, reject }));
    const cancel = clock.after(startMs, () =>
      this.#started?.reject(new Error(`The workers have not started within ${startMs / 1000} s.`)),
    );
    for (let slot = 1; slot <= count; slot++) this.#fork(slot);
    try {
      await all;
    } catch (error) {
      this.#isStopping = true;
      throw error;
    } finally {
      cancel();
      this.#started = undefined;
    }
    void this.#adoptJournals();
    return this.#port;
  }

  async prepare(source: ConfigSource): Promise<readonly string[]> {
    const next = this.#textsOf.get(source) ?? this.#texts;
    this.#next = next;
    const refusals = this.#readyMembers().map(async (member) => {
      const problems = await this.#prepare(member, next);
      // Its successor serves what is in force when it starts.
      if (this.#members.get(member.slot) !== member) return [];
      return problems.map((problem) => `worker ${member.slot}: ${problem}`);
    });
    return (await Promise.all(refusals)).flat();
  }

  async commit(): Promise<void> {
    this.#texts = this.#next;
    await Promise.all(this.#readyMembers().map((member) => this.#bringUpToDate(member)));
  }

  async abandon(): Promise<void> {
    for (const member of this.#members.values()) member.prepared = undefined;
    await this.#ask('abandon', questionMs, () => undefined);
  }

  async beginCanary(source: ConfigSource, share: number): Promise<readonly string[]> {
    const texts = this.#textsOf.get(source) ?? this.#texts;
    const refusals = this.#readyMembers().map(async (member) => {
      try {
        const problems = await this.#call(member, 'canary.begin', prepareMs, texts, share);
        return problems.map((problem) => `worker ${member.slot}: ${problem}`);
      } catch (error) {
        return [`worker ${member.slot}: ${messageOf(error)}`];
      }
    });
    return (await Promise.all(refusals)).flat();
  }

  async watchCanary(share: number): Promise<readonly CanaryReport[]> {
    const reports = await this.#ask('canary.watch', questionMs, (_, report) => report, share);
    return reports.filter((one) => one !== undefined);
  }

  async endCanary(): Promise<void> {
    await this.#ask('canary.end', questionMs, () => undefined);
  }

  /** Has a worker build a configuration; resolves with the reasons why it cannot, empty for none. */
  async #prepare(member: Member, texts: ConfigTexts): Promise<readonly string[]> {
    try {
      const problems = await this.#call(member, 'prepare', prepareMs, texts);
      if (problems.length === 0) member.prepared = texts;
      return problems;
    } catch (error) {
      return [messageOf(error)];
    }
  }

  /**
   * Has a worker serve the configuration that is in force. One that cannot is ended: its successor does, or says why
   * not.
   */
  async #bringUpToDate(member: Member): Promise<void> {
    try {
      while (member.serves !== this.#texts) {
        const texts = this.#texts;
        const problems = member.prepared === texts ? [] : await this.#prepare(member, texts);
        if (problems.length > 0) throw new Error(problems.join('\n'));
        await this.#call(member, 'commit', questionMs);
        member.serves = texts;
        member.prepared = undefined;
      }
    } catch (error) {
      this.#options.log.error('A worker does not serve the configuration in force, and is ended', {
        worker: member.slot,
        error,
      });
      member.process.process.kill('SIGKILL');
    }
  }

  /** Resolves when every worker knows the present content of the store, after 2 seconds at the latest. */
  async refresh(): Promise<void> {
    await this.#ask('refresh', refreshMs, () => undefined);
  }

  /** True when everything that the workers had accepted is stored. */
  async settle(timeoutMs: number): Promise<boolean> {
    const settled = await this.#ask('settle', timeoutMs + questionMs, (_, isSettled) => isSettled, timeoutMs);
    return settled.every((one) => one);
  }

  /** Also of workers that have ended or do not answer, as last read: counters never go back. */
  async metrics(): Promise<readonly CollectedMetrics[]> {
    await this.#ask('metrics', questionMs, (member, collected) => (member.metrics = collected));
    const ended = this.#endedMetrics;
    const present = [...this.#members.values()].map(({ metrics }) => metrics);
    return [await ended, ...present];
  }

  /** One entry for each worker that answers. */
  states(): Promise<readonly (WorkerState & { readonly worker: number; readonly pid: number })[]> {
    return this.#ask('state', questionMs, ({ slot, process: { process: child } }, state) => ({
      worker: slot,
      pid: child.pid ?? 0,
      ...state,
    }));
  }

  /** Stops all workers after their requests; kills those that are late. Resolves when the last one has ended. */
  async stop({ drainDelayMs, deadlineMs, hurry }: StopOptions): Promise<void> {
    this.#isStopping = true;
    this.#cancelAdoption();
    const onHurry = (): void => void this.#ask('hurry', questionMs, () => undefined);
    hurry.addEventListener('abort', onHurry, { once: true });
    const members = [...this.#members.values()];
    const ended = members.map(
      (member) => new Promise<void>((resolve) => void member.process.once('exit', () => resolve())),
    );
    void this.#ask('stop', drainDelayMs + deadlineMs, () => undefined, drainDelayMs);
    for (const { isReady, process: child } of members) if (!isReady) child.kill('SIGKILL');
    const cancel = this.#options.clock.after(drainDelayMs + deadlineMs, () => {
      for (const { process: child } of this.#members.values()) child.kill('SIGKILL');
    });
    await Promise.all(ended);
    cancel();
    hurry.removeEventListener('abort', onHurry);
  }

  async close(): Promise<void> {
    for (const { channel } of this.#members.values()) channel?.close();
    await new Promise<void>((resolve) => (this.#server ? this.#server.close(() => resolve()) : resolve()));
    await this.#folder?.remove();
  }

  #fork(slot: number): void {
    const child = cluster.fork({
      [slotVariable]: String(slot),
      [socketVariable]: path.join(this.#folder?.path ?? '', 'workers.sock'),
    });
    const { clock } = this.#options;
    const member: Member = {
      slot,
      process: child,
      startedAt: clock.monotonic(),
      channel: undefined,
      serves: undefined,
      prepared: undefined,
      folder: 0,
      isReady: false,
      metrics: [],
    };
    this.#members.set(slot, member);
    child.once('exit', (code, signal) => this.#ended(member, signal ?? code));
  }

  #ended(member: Member, how: number | string): void {
    const { log, clock } = this.#options;
    member.channel?.close();
    if (this.#members.get(member.slot) === member) this.#members.delete(member.slot);
    this.#endedMetrics = this.#endedMetrics.then((ended) => totalsOf([ended, member.metrics]));
    if (this.#isStopping) return;
    if (this.#started !== undefined) {
      this.#started.reject(new Error(`Worker ${member.slot} has ended with ${how} before it listened.`));
      return;
    }
    const wasHealthy = clock.monotonic() - member.startedAt > healthyMs && member.isReady;
    const waitMs = wasHealthy ? 0 : this.#waitMs;
    this.#waitMs = wasHealthy ? firstWaitMs : Math.min(longestWaitMs, this.#waitMs * 2);
    log.error('A worker has ended and is replaced', {
      worker: member.slot,
      ended_with: how,
      wait_ms: waitMs,
    });
    clock.after(waitMs, () => {
      if (!this.#isStopping) this.#fork(member.slot);
    });
  }

  /** A worker has connected; its first call says which one it is. */
  #connected(socket: Socket): void {
    const { clock, log } = this.#options;
    const served = serveStores(this.#stores as SharedByParent, clock, () => channel);
    let member: Member | undefined;
    const calls: Offered<CallsOfParent> = {
      ...served.calls,
      'worker.begin': async (slot) => {
        member = this.#members.get(slot);
        if (member === undefined) throw new Error(`There is no worker ${slot}.`);
        member.channel = channel;
        member.serves = this.#texts;
        return {
          texts: member.serves,
          folder: await this.#giveFolder(member),
          journals: this.#options.count + 1,
          controlPlane: this.controlPlane,
        };
      },
      'worker.ready': async (port) => {
        if (member === undefined) return;
        // It may have changed since this worker began.
        await this.#bringUpToDate(member);
        member.isReady = true;
        this.#port = port;
        this.#waitMs = firstWaitMs;
        if (this.#started === undefined) log.info('A worker serves', { worker: member.slot });
        else if (this.#readyMembers().length === this.#options.count) this.#started.resolve();
      },
      'worker.failed': (reason) => {
        this.#started?.reject(new Error(reason));
      },
    };
    const channel: Channel<CallsOfWorker> = new Channel<CallsOfWorker>(socket, calls);
    void channel.closed.then(() => served.end());
  }

  /** A folder for the worker: that of its slot, unless a worker of an earlier parent still writes to it. */
  async #giveFolder(member: Member): Promise<string> {
    for (let number = member.slot; ; number += this.#options.count) {
      const folder = path.join(workersFolder(this.#options.data), String(number));
      if (this.#adopting.has(number)) continue;
      if (existsSync(folder) && (await dataFolderHolder(folder)) !== undefined) continue;
      member.folder = number;
      return folder;
    }
  }

  /**
   * Ships what is left in folders that no worker has: of an earlier start with more workers, or of one whose parent was
   * killed. Looks again as long as another process holds one.
   */
  async #adoptJournals(): Promise<void> {
    const { data, clock, log } = this.#options;
    const used = new Set([...this.#members.values()].map(({ folder }) => folder));
    for (const folder of await workerFolders(data)) {
      const number = Number(path.basename(folder));
      if (used.has(number) || this.#isStopping) continue;
      if ((await dataFolderHolder(folder)) !== undefined) continue;
      this.#adopting.add(number);
      try {
        if (await this.#ship(folder)) await rm(folder, { recursive: true, force: true });
      } catch (error) {
        log.warn('Rows that a worker has left cannot be shipped yet', { folder, error });
      } finally {
        this.#adopting.delete(number);
      }
    }
    if (!this.#isStopping) this.#cancelAdoption = clock.after(adoptEveryMs, () => void this.#adoptJournals());
  }

  #readyMembers(): Member[] {
    return [...this.#members.values()].filter(({ isReady }) => isReady);
  }

  /** Asks all workers; one that has gone, or does not answer in time, is left out. */
  async #ask<N extends keyof CallsOfWorker, R>(
    name: N,
    ms: number,
    use: (member: Member, answer: Awaited<ReturnType<CallsOfWorker[N]>>) => R,
    ...args: Parameters<CallsOfWorker[N]>
  ): Promise<R[]> {
    const answers = this.#readyMembers().map(async (member): Promise<R[]> => {
      try {
        return [use(member, await this.#call(member, name, ms, ...args))];
      } catch (error) {
        this.#options.log.warn(`A worker did not answer: ${name}`, { worker: member.slot, error });
        return [];
      }
    });
    return (await Promise.all(answers)).flat();
  }

  /** Calls one worker; rejects when it does not answer in time. */
  #call<N extends keyof CallsOfWorker>(
    { channel }: Member,
    name: N,
    ms: number,
    ...args: Parameters<CallsOfWorker[N]>
  ): Promise<Awaited<ReturnType<CallsOfWorker[N]>>> {
    if (channel === undefined) return Promise.reject(new Error('The worker has not begun.'));
    const late = (): Error => new Error(`The worker has not answered within ${ms} ms.`);
    return bounded(() => channel.call(name, ...args), { clock: this.#options.clock, ms, late });
  }
}

/** How long the end of the workers may take. */
interface StopOptions {
  readonly drainDelayMs: number;
  /** After the drain delay. */
  readonly deadlineMs: number;
  readonly hurry: AbortSignal;
}
