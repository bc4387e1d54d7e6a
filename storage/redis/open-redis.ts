import { Redis, Cluster } from 'ioredis';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import type { Metrics } from '../../core/ports/metrics.ts';
import { type EncodedCommand, encodedCommands, type RedisClient } from './encoded-command.ts';
import { type RedisAddress, redisAddresses } from './redis-address.ts';
import type { KeyedCallOptions, RedisConnection, ReplyHandling } from './redis-connection.ts';
import { endClient, RedisNode } from './redis-node.ts';
import { OutageReport } from './timed-calls.ts';
import { primaries } from './follow-primaries.ts';

/** Default timeout of a call in milliseconds. */
const defaultBudgetMs = 50;
/** Longest wait of opening for the server; after that the gateway starts without it. */
const firstContactMs = 1000;

/** Dependencies and options of `openRedis`. */
interface RedisOptions {
  /** See `parseRedisUrl`: a server, a cluster, or sentinels and the name of a primary. */
  readonly url: string;
  readonly log: Log;
  readonly clock: Clock;
  readonly metrics?: Metrics;
  /** Stored data, named in logs and metrics. Default `counters and cache`. */
  readonly stores?: string;
  /** Timeout of a call in milliseconds. Default 50. */
  readonly budgetMs?: number | undefined;
}

/**
 * Opens the connection to a Redis server or cluster, which may be unavailable: connecting is retried without limit, with
 * delays of 50 ms to 2 s. Resolves when all servers have answered, or after a second without that. Rejects only for an
 * unusable address.
 */
export async function openRedis(options: RedisOptions): Promise<RedisConnection> {
  const { clock, budgetMs = defaultBudgetMs } = options;
  const address = redisAddresses.parse(options.url);
  const report = reportOf(options, address);
  const Kind = address.kind === 'cluster' ? ClusterConnection : OwnedConnection;
  const connection = new Kind({ address, clock, budgetMs, report });
  let cancel = (): void => undefined;
  const late = new Promise<'late'>((resolve) => {
    cancel = clock.after(firstContactMs, () => resolve('late'));
  });
  const first = await Promise.race([connection.connected, late]);
  cancel();
  if (first === 'late' && report.reason === undefined)
    report.begin(`no connection within ${firstContactMs} ms`);
  return connection;
}

function reportOf(
  { log, clock, metrics, stores = 'counters and cache' }: RedisOptions,
  { label, kind }: RedisAddress,
): OutageReport {
  const consequence =
    kind === 'cluster'
      ? 'For the keys of that server, limits follow their on_store_failure and caches miss until it is back.'
      : undefined;
  return new OutageReport({ log, clock, metrics, label, stores, consequence });
}

/** Dependencies and options. */
interface OwnedConnectionOptions {
  readonly address: RedisAddress;
  readonly clock: Clock;
  readonly budgetMs: number;
  readonly report: OutageReport;
}

/** One server, or the primary that sentinels name. */
class OwnedConnection implements RedisConnection {
  readonly budgetMs: number;
  /** Resolves when the server has answered for the first time. */
  readonly connected: Promise<void>;
  readonly #clock: Clock;
  readonly #node: RedisNode;
  readonly #endWatching: () => void;
  #connections = 0;

  constructor({ address, clock, budgetMs, report }: OwnedConnectionOptions) {
    this.budgetMs = budgetMs;
    this.#clock = clock;
    let tellConnected = (): void => undefined;
    this.connected = new Promise((resolve) => (tellConnected = resolve));
    this.#node = new RedisNode({
      client: createClient(address),
      clock,
      budgetMs,
      report,
      onReady: () => {
        this.#connections += 1;
        tellConnected();
      },
      onDown: (reason) => report.begin(reason),
      onUp: () => report.end(),
    });
    this.#endWatching = primaries.watchFailover(address, this.#node.client);
  }

  get available(): boolean {
    return this.#node.usable;
  }

  get session(): number | undefined {
    return this.#node.ready ? this.#connections : undefined;
  }

  isAvailableFor(): boolean {
    return this.available;
  }

  call<Reply>(send: (client: RedisClient) => Promise<Reply>, options: KeyedCallOptions = {}): Promise<Reply> {
    return this.#node.call(send, options);
  }

  send<Result>(command: EncodedCommand, handling: ReplyHandling<Result>): Promise<Result> {
    return this.#node.send(command, handling);
  }

  ping(): Promise<void> {
    return this.#node.ping();
  }

  async close(): Promise<void> {
    this.#endWatching();
    this.#node.close();
    await endClient(this.#node.client, this.#clock);
  }
}

function createClient(address: RedisAddress): Redis {
  return encodedCommands.batchWrites(
    new Redis({
      ...redisAddresses.serverOptions(address),
      // A command that cannot be sent now is decided without the server, and a sent one is never repeated.
      enableOfflineQueue: false,
      autoResendUnfulfilledCommands: false,
      maxRetriesPerRequest: 0,
    }),
  );
}

/** Delay before a command is sent again whose keys are on two servers while their slot moves. */
const tryAgainMs = 10;
/**
 * Commands that a server redirects may be overtaken by later ones: after this time none is under way, and a new session
 * puts right what that has changed. Milliseconds.
 */
const renewAfterMs = 1000;
/** Upper bound of redirections of one command. */
const maxRedirections = 32;

/** Dependencies and options. */
interface ClusterConnectionOptions {
  readonly address: RedisAddress;
  readonly clock: Clock;
  readonly budgetMs: number;
  readonly report: OutageReport;
}

/**
 * The primaries of a Redis cluster. ioredis finds them, connects, and follows redirections; each server has a breaker
 * of its own, so that one that is away takes only its own keys with it.
 */
class ClusterConnection implements RedisConnection {
  readonly budgetMs: number;
  /** Resolves when every slot has a connected server for the first time. */
  readonly connected: Promise<void>;
  readonly #options: ClusterConnectionOptions;
  readonly #client: Cluster;
  /** Servers by `HOST:PORT`, as in `#client.slots`. */
  readonly #nodes = new Map<string, RedisNode>();
  /** Servers that keep slots. */
  #owners: ReadonlySet<string> = new Set();
  /** Servers whose connection was lost: they are used again when connected. */
  readonly #lost = new Set<string>();
  #tellConnected = (): void => undefined;
  /** As at the last refresh: the client changes its own list. */
  readonly #ownersOfSlots: (string | undefined)[] = [];
  #cancelRenewal: (() => void) | undefined;
  #session = 1;
  #closing = false;
  readonly #endKeeping: () => void;
  #lastError = '';

  constructor(options: ClusterConnectionOptions) {
    this.#options = options;
    this.budgetMs = options.budgetMs;
    this.connected = new Promise((resolve) => (this.#tellConnected = resolve));
    this.#client = createCluster(options.address);
    this.#listen();
    this.#endKeeping = primaries.keep(this.#client, options.clock, () => this.#isWhole);
  }

  get available(): boolean {
    for (const node of this.#nodes.values()) if (node.usable) return true;
    return false;
  }

  get session(): number | undefined {
    for (const node of this.#nodes.values()) if (node.reachable) return this.#session;
    return undefined;
  }

  isAvailableFor(key: string): boolean {
    return this.#nodeOf(encodedCommands.slotOfKey(key))?.usable ?? false;
  }

  call<Reply>(send: (client: RedisClient) => Promise<Reply>, options: KeyedCallOptions = {}): Promise<Reply> {
    const { key } = options;
    const node = key === undefined ? this.#anyNode() : this.#nodeOf(encodedCommands.slotOfKey(key));
    if (node === undefined) return Promise.reject(this.#away());
    return node.call(send, options, this.#client);
  }

  send<Result>(command: EncodedCommand, handling: ReplyHandling<Result>): Promise<Result> {
    const slot = encodedCommands.slotOf(command);
    const node = this.#nodeOf(slot);
    if (node !== undefined) return node.send(command, handling, this.#client, slot);
    // As in a node: what the handling throws rejects.
    return new Promise((resolve) => resolve(handling.without(this.#away())));
  }

  async ping(): Promise<void> {
    const { reason } = this.#options.report;
    if (reason !== undefined) throw new Error(reason);
    await Promise.all([...this.#owners].map((key) => this.#ping(key)));
  }

  async close(): Promise<void> {
    this.#closing = true;
    this.#endKeeping();
    this.#cancelRenewal?.();
    for (const node of this.#nodes.values()) node.close();
    this.#nodes.clear();
    await endClient(this.#client, this.#options.clock);
  }

  #nodeOf(slot: number): RedisNode | undefined {
    const key = this.#client.slots[slot]?.[0];
    return key === undefined ? undefined : this.#nodes.get(key);
  }

  #anyNode(): RedisNode | undefined {
    for (const node of this.#nodes.values()) if (node.usable) return node;
    return undefined;
  }

  async #ping(key: string): Promise<void> {
    const node = this.#nodes.get(key);
    if (node === undefined) throw new Error(`${key}: not connected`);
    await node.ping();
  }

  /** The failure of a call without a server. */
  #away(): Error {
    const { report } = this.#options;
    report.countFailed('away');
    return new Error(report.reason ?? 'not connected');
  }

  #listen(): void {
    const client = this.#client;
    client.on('+node', (node: Redis) => this.#add(node));
    client.on('-node', (node: Redis) => this.#remove(node));
    client.on('refresh', () => this.#refreshed());
    // Only the message: the error of a refused login carries the password.
    const note = (error: Error & { readonly lastNodeError?: Error }, key?: string): void => {
      const { message, name } = error.lastNodeError ?? error;
      // The reason comes from another connection to the same server.
      if (message === 'Connection is closed.') return;
      this.#lastError = `${key === undefined ? '' : `${key}: `}${message === '' ? name : message}`;
      if (!this.available && !this.#closing) this.#options.report.begin(this.#lastError);
    };
    client.on('node error', note);
    client.on('error', (error: Error & { readonly lastNodeError?: Error }) => {
      if (this.#lastError === '') note(error);
    });
  }

  #add(client: Redis): void {
    const key = primaries.keyOf(client);
    if (this.#closing || this.#nodes.has(key)) return;
    const { clock, budgetMs, report } = this.#options;
    const node = new RedisNode({
      client: encodedCommands.batchWrites(client),
      clock,
      budgetMs,
      report,
      // Calls for a server that has just got its first slots wait for the connection.
      joins: !this.#lost.has(key) && this.#owners.size > 0 && client.options.readOnly !== true,
      onReady: () => this.#lost.delete(key),
      onDown: (reason) => {
        if (this.#owners.has(key)) report.begin(`${key}: ${reason}`);
      },
      onUp: () => this.#update(),
    });
    this.#nodes.set(key, node);
  }

  #remove(client: Redis): void {
    const key = primaries.keyOf(client);
    const node = this.#nodes.get(key);
    if (node?.client !== client || this.#closing) return;
    const reason = node.reason ?? 'the connection was closed';
    node.close();
    this.#nodes.delete(key);
    // Commands in flight may or may not have run.
    this.#session += 1;
    if (!this.#owners.has(key)) return;
    this.#lost.add(key);
    this.#options.report.begin(`${key}: ${reason}`);
  }

  /** The client has read which server keeps which slots. */
  #refreshed(): void {
    if (this.#closing) return;
    const { slots } = this.#client;
    const owners = new Set<string>();
    let hasMoved = false;
    slots.forEach((servers, slot) => {
      const [owner] = servers;
      if (owner === undefined) return;
      owners.add(owner);
      const before = this.#ownersOfSlots[slot];
      hasMoved ||= before !== undefined && before !== owner;
      this.#ownersOfSlots[slot] = owner;
      // Slots of one range share a list, and the client changes the list of a slot that has moved.
      slots[slot] = [...servers];
    });
    this.#owners = owners;
    if (hasMoved) this.#renewLater();
    for (const key of this.#lost) if (!owners.has(key)) this.#lost.delete(key);
    this.#update();
  }

  #renewLater(): void {
    this.#cancelRenewal ??= this.#options.clock.after(renewAfterMs, () => {
      this.#cancelRenewal = undefined;
      this.#session += 1;
    });
  }

  get #isWhole(): boolean {
    for (const key of this.#owners) if (this.#nodes.get(key)?.ready !== true) return false;
    return this.#owners.size > 0;
  }

  #update(): void {
    if (!this.#isWhole) return;
    this.#tellConnected();
    for (const key of this.#owners) if (this.#nodes.get(key)?.usable !== true) return;
    this.#lastError = '';
    this.#options.report.end();
  }
}

function createCluster(address: RedisAddress): Cluster {
  const { nodes, options } = redisAddresses.clusterOptions(address, {
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
  });
  return new Cluster(nodes, {
    ...options,
    maxRedirections,
    retryDelayOnTryAgain: tryAgainMs,
    // What a lost connection carried may have run: it is never sent again. Nor does a refused command wait.
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
  });
}
