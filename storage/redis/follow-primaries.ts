import type { Cluster } from 'ioredis';
import { Redis } from 'ioredis';
import type { Clock } from '../../core/ports/clock.ts';
import { type RedisAddress, redisAddresses } from './redis-address.ts';

/** Follows the primary servers. */
export const primaries = { watchFailover, keep: keepPrimaries, keyOf };

/** Upper bound of sentinels that are listened to. */
const maxWatched = 5;
const channel = '+switch-master';

/**
 * Reconnects the client when sentinels say that its primary was replaced: the old one may still answer, and what is
 * written to it is lost. Without sentinels it does nothing. Returns what ends it.
 */
function watchFailover({ sentinel, servers }: RedisAddress, client: Redis): () => void {
  if (sentinel === undefined) return () => undefined;
  const { primary, username, password, tls } = sentinel;
  const watchers = servers.slice(0, maxWatched).map(({ host, port }) => {
    const watcher = new Redis({
      host,
      port,
      ...(username === undefined ? {} : { username }),
      ...(password === undefined ? {} : { password }),
      ...(tls ? { tls: {} } : {}),
      connectionName: 'weir',
      disableClientInfo: true,
      enableReadyCheck: false,
      connectTimeout: redisAddresses.handshakeMs,
      maxRetriesPerRequest: null,
      keepAlive: 30_000,
      retryStrategy: redisAddresses.backOffMs,
    });
    // Other sentinels say the same, and the client reports what concerns it.
    watcher.on('error', () => undefined);
    watcher.on('message', (_channel, message: string) => {
      const [name, , , host = '', newPort] = message.split(' ');
      if (name === primary && !isConnectedTo(client, host, Number(newPort))) client.disconnect(true);
    });
    watcher.subscribe(channel).catch(() => undefined);
    return watcher;
  });
  return () => {
    for (const watcher of watchers) watcher.disconnect();
  };
}

function isConnectedTo({ status, stream }: Redis, host: string, port: number): boolean {
  // Another attempt asks the sentinels again anyway.
  if (status !== 'ready' || !('remotePort' in stream)) return true;
  return stream.remotePort === port && stream.remoteAddress?.endsWith(host) === true;
}

/**
 * Connects the primaries of a cluster at once (the client waits for their first command), and after a lost connection
 * asks where the slots are, with delays of 50 ms to 2 s, until `isWhole`. Returns what ends it.
 */
function keepPrimaries(cluster: Cluster, clock: Clock, isWhole: () => boolean): () => void {
  let attempts = 0;
  let cancel: (() => void) | undefined;
  let isEnded = false;
  const connect = (client: Redis): void => {
    if (client.status !== 'wait' || client.options.readOnly === true) return;
    // Its node reports the reason of a failure.
    client.connect().catch(() => undefined);
  };
  const look = (): void => {
    if (isWhole()) attempts = 0;
    else if (cancel === undefined && !isEnded)
      cancel = clock.after(redisAddresses.backOffMs((attempts += 1)), refresh);
  };
  const refresh = (): void => {
    cancel = undefined;
    if (isWhole() || cluster.status !== 'ready') return;
    // Its own event tells of success.
    cluster.refreshSlotsCache((error) => {
      if (error) look();
    });
  };
  cluster.on('+node', connect);
  cluster.on('-node', look);
  cluster.on('refresh', () => {
    // Among them are replicas that have become primaries.
    for (const client of cluster.nodes('master')) connect(client);
    look();
  });
  return () => {
    isEnded = true;
    cancel?.();
  };
}

/** The name of a server in the client's list of slots. */
function keyOf({ options: { host, port } }: Redis): string {
  return `${host}:${port}`;
}
