import { createServer, type AddressInfo, type Server } from 'node:net';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { GuardedAnswer, GuardedFetch, GuardedRequest } from '../../core/ports/transport.ts';
import { systemClock } from '../../core/ports/clock.ts';
import type { Resolve } from '../addresses/address-guard.ts';
import { silentLog } from '../transport/transport.test-support.ts';
import { createGuardedFetch, type GuardedFetchOptions } from './guarded-fetch.ts';

/** A guarded fetch that trusts no host and resolves no name, unless options say otherwise. */
export function testFetch(options: Partial<GuardedFetchOptions> = {}): GuardedFetch {
  return createGuardedFetch({
    log: silentLog,
    clock: systemClock,
    trustedHosts: [],
    resolve: names({}),
    ...options,
  });
}

/** Fetches with bounds that no test reaches. */
export function get(
  fetcher: GuardedFetch,
  url: string,
  more: Partial<GuardedRequest> = {},
): Promise<GuardedAnswer> {
  return fetcher.fetch({ url, timeoutMs: 5_000, maxBytes: 1_000_000, ...more }).answer;
}

/** Error of a failed fetch. */
export async function failure(answer: Promise<GuardedAnswer>): Promise<GatewayError> {
  const result = await answer.catch((error: unknown) => error);
  if (!GatewayError.is(result)) throw new Error('It was fetched.', { cause: result });
  return result;
}

/** Resolves names from a table, and counts its calls. */
export function names(table: Readonly<Record<string, readonly string[]>>): Resolve & { asked: string[] } {
  const asked: string[] = [];
  const resolve = (hostname: string) => {
    asked.push(hostname);
    const addresses = table[hostname.replace(/\.$/, '')];
    if (addresses === undefined) {
      return Promise.reject(Object.assign(new Error('no such name'), { code: 'ENOTFOUND' }));
    }
    return Promise.resolve(addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })));
  };
  return Object.assign(resolve, { asked });
}

/** A listener on loopback that records its connections. */
export interface Canary {
  readonly port: number;
  readonly connections: number;
  close(): void;
}

/** Listens on 127.0.0.1 and, where there is one, on ::1 at the same port. */
export async function startCanary(): Promise<Canary> {
  const servers: Server[] = [];
  const canary = { port: 0, connections: 0, close: () => servers.forEach((server) => server.close()) };
  for (const host of ['127.0.0.1', '::1']) {
    const server = createServer((socket) => {
      canary.connections += 1;
      socket.destroy();
    });
    const listening = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false));
      server.listen(canary.port, host, () => resolve(true));
    });
    if (!listening) continue;
    servers.push(server);
    canary.port = (server.address() as AddressInfo).port;
  }
  return canary;
}
