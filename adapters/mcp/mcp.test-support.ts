import type { TestContext } from 'node:test';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { type Clock, systemClock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import type { McpAddress, McpClients } from '../../core/ports/mcp.ts';
import { eventually } from '../../tests/kit/process-kit.ts';
import { startMcpServer, type McpScript, type McpServer } from '../../tests/kit/mcp-server.ts';
import { silentLog } from '../transport/transport.test-support.ts';
import { createMcpClients, type McpClientsOptions } from './create-mcp-clients.ts';

/** Clients for the tests of this folder, which trust this host and resolve no name unless options say otherwise. */
export function testClients(host: string, options: Partial<McpClientsOptions> = {}): McpClients {
  return createMcpClients({
    log: silentLog,
    clock: systemClock,
    trustedHosts: [host],
    resolve: () => Promise.reject(Object.assign(new Error('no such name'), { code: 'ENOTFOUND' })),
    ...options,
  });
}

/** Error of a failed conversation. */
export async function failure(conversation: Promise<unknown>): Promise<GatewayError> {
  const result = await conversation.catch((error: unknown) => error);
  if (!GatewayError.is(result)) throw new Error('It succeeded, or failed otherwise.', { cause: result });
  return result;
}

/** A server for this test with its clients; `at` is its address. */
export async function scripted(
  t: TestContext,
  script: McpScript = {},
  options: Partial<McpClientsOptions> = {},
): Promise<{ server: McpServer; clients: McpClients; at: (transport?: 'http' | 'sse') => McpAddress }> {
  const server = await startMcpServer(script);
  t.after(() => server.close());
  return {
    server,
    clients: testClients(server.host, options),
    at: (transport = 'http') => ({
      url: transport === 'http' ? server.url : server.sseUrl,
      transport,
      headers: [],
    }),
  };
}

/** Waits until all connections to the server are closed. */
export async function untilClosed(server: McpServer): Promise<void> {
  await eventually(
    () => server.openSockets() === 0 || undefined,
    () => `no open connection; there are ${server.openSockets()}`,
    2_000,
  );
}

/** The system's clock with its pending timers. */
export function countingClock(): Clock & { readonly pending: Set<object> } {
  const pending = new Set<object>();
  return {
    ...systemClock,
    pending,
    after(ms, run) {
      const mark = {};
      pending.add(mark);
      const cancel = systemClock.after(ms, () => {
        pending.delete(mark);
        run();
      });
      return () => {
        pending.delete(mark);
        cancel();
      };
    },
  };
}

/** A log that keeps its lines. */
export function keepingLog(): Log & { readonly lines: { message: string; fields: unknown }[] } {
  const lines: { message: string; fields: unknown }[] = [];
  const keep = (message: string, fields?: unknown): void => void lines.push({ message, fields });
  const log = { lines, debug: keep, info: keep, warn: keep, error: keep, child: () => log };
  return log;
}
