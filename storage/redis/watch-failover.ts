import { Redis } from 'ioredis';
import { backOffMs, handshakeMs, type RedisAddress } from './redis-address.ts';

/** Upper bound of sentinels that are listened to. */
const maxWatched = 5;
const channel = '+switch-master';

/**
 * Reconnects the client when sentinels say that its primary was replaced: the old one may still answer, and what is
 * written to it is lost. Without sentinels it does nothing. Returns what ends it.
 */
export function watchFailover({ sentinel, servers }: RedisAddress, client: Redis): () => void {
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
      connectTimeout: handshakeMs,
      maxRetriesPerRequest: null,
      keepAlive: 30_000,
      retryStrategy: backOffMs,
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
