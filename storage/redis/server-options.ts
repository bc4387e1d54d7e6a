import { isIP } from 'node:net';
import type { RedisOptions } from 'ioredis';
import type { RedisAddress } from './redis-address.ts';

/** Milliseconds that connecting to a server, and its greeting, may take. */
export const handshakeMs = 2000;
const longestBackOffMs = 2000;

/** How every connection reaches its server: tried again for ever, pausing 50 ms to 2 s. */
export function serverOptions({ host, port, database, username, password, tls }: RedisAddress): RedisOptions {
  return {
    ...{ host, port, db: database },
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    // A server's name goes with the handshake; an address must not.
    ...(tls ? { tls: isIP(host) === 0 ? { servername: host } : {} } : {}),
    connectionName: 'weir',
    disableClientInfo: true,
    retryStrategy: (attempt) => Math.min(longestBackOffMs, 50 * 2 ** Math.min(attempt - 1, 10)),
    connectTimeout: handshakeMs,
    disconnectTimeout: 100,
    keepAlive: 30_000,
  };
}
