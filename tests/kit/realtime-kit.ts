/** A gateway in front of a provider that speaks WebSocket. */
import type net from 'node:net';
import type { TestContext } from 'node:test';
import type { KeyRecord } from '../../core/ports/directory.ts';
import auth from '../../plugins/auth/index.ts';
import {
  providerPlugin,
  startTestGateway,
  type TestGateway,
  type TestGatewayOptions,
} from './gateway-kit.ts';
import {
  frame,
  openSocket,
  startWebSocketProvider,
  type SocketClient,
  type WebSocketProvider,
} from './websocket-provider.ts';

/** The service key of these gateways. */
export const secret = 'wk_test_0123456789abcdef';
const key: KeyRecord = {
  id: 'key-1',
  name: 'test',
  kind: 'workspace-service',
  organisationId: 'org',
  workspaceId: 'ws',
  userId: '',
  scopes: ['completions.write'],
  expiresAt: null,
};
/** The credential that they hold for the provider `up`. */
export const held = 'sk-held-by-the-gateway';
/** Headers of a caller that is known. */
export const callers = { 'x-service-api-key': secret };

/** The gateway and its provider. */
interface Place {
  readonly provider: WebSocketProvider;
  readonly gateway: TestGateway;
  open(path?: string, headers?: Record<string, string>, protocols?: string[]): Promise<SocketClient>;
}

/** Starts both; `route` are options of the provider plugin. */
export async function startRealtime(
  t: TestContext,
  { plugins, ...options }: TestGatewayOptions = {},
  route: Record<string, unknown> = {},
): Promise<Place> {
  const provider = await startWebSocketProvider();
  t.after(() => provider.close());
  const gateway = await startTestGateway(t, {
    plugins: [auth, ...(plugins ?? []), providerPlugin({ default: 'up', ...route })],
    keys: { [secret]: key },
    ...options,
    providers: {
      up: { base_url: `http://${provider.host}/api/v1`, api_key: held },
      ...options.providers,
    },
  });
  return {
    provider,
    gateway,
    async open(path = '/v1/realtime?model=gpt-realtime', headers = callers, protocols = []) {
      const client = await openSocket(`${gateway.url}${path}`, { headers, protocols });
      t.after(() => client.socket.close());
      return client;
    },
  };
}

/** A provider `silent` that is this server. */
export async function silentProvider(
  t: TestContext,
  server: net.Server,
): Promise<Required<Pick<TestGatewayOptions, 'providers'>>> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const { port } = server.address() as net.AddressInfo;
  return { providers: { silent: { base_url: `http://127.0.0.1:${port}`, credentials: 'none' } } };
}

/** The head of a request for WebSocket. */
export const handshake = (headers: Record<string, string> = callers, path = '/v1/realtime?model=m'): string =>
  [
    `GET ${path} HTTP/1.1`,
    'Host: gateway.example',
    'Connection: Upgrade',
    'Upgrade: websocket',
    'Sec-WebSocket-Version: 13',
    'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    '\r\n',
  ].join('\r\n');

/** A client's frame with a mask of zeros, which leaves the payload as it is. */
export function masked(payload: Buffer, opcode = 1): Buffer {
  const bytes = frame({ final: true, opcode, payload });
  const start = bytes.length - payload.length;
  const head = Buffer.from(bytes.subarray(0, start));
  head[1] = (head[1] as number) | 128;
  return Buffer.concat([head, Buffer.alloc(4), payload]);
}
