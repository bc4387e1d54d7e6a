// OpenAI's realtime clients as black boxes: that of browsers, which names its key as a subprotocol, and that for Node.
// Both speak TLS only, which ends in front of the gateway.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import net, { type AddressInfo } from 'node:net';
import { test, type TestContext } from 'node:test';
import tls from 'node:tls';
import OpenAI from 'openai';
import { OpenAIRealtimeWebSocket } from 'openai/realtime/websocket';
import { Agent, WebSocket } from 'undici';
import auth from '../../plugins/auth/index.ts';
import { providerPlugin, startTestGateway } from '../kit/gateway-kit.ts';
import { readFrames, startWebSocketProvider } from '../kit/websocket-provider.ts';

const secret = 'wk_test_0123456789abcdef';
const key = {
  id: 'key-1',
  name: 'test',
  kind: 'workspace-service' as const,
  organisationId: 'org',
  workspaceId: 'ws',
  userId: '',
  scopes: ['completions.write'],
  expiresAt: null,
};
const certificate = (name: string): Promise<string> =>
  readFile(new URL(`../fixtures/tls/${name}.pem`, import.meta.url), 'utf8');
const ca = await certificate('authority');

/** Node 20 has no client of its own, and that of later ones knows no further authorities. */
class TrustingWebSocket extends WebSocket {
  constructor(url: string, protocols: string[]) {
    super(url, { protocols, dispatcher: new Agent({ connect: { ca } }) });
  }
}
Object.assign(globalThis, { WebSocket: TrustingWebSocket });

/** A TLS server that passes everything to a port of this machine; its own port. */
async function terminateTls(t: TestContext, port: number): Promise<number> {
  const server = tls.createServer({
    cert: await certificate('server'),
    key: await certificate('server-key'),
  });
  server.on('secureConnection', (secure) => {
    const plain = net.connect(port, '127.0.0.1');
    secure.pipe(plain).pipe(secure);
    for (const side of [secure, plain]) side.on('error', () => undefined);
    t.after(() => [secure, plain].forEach((side) => side.destroy()));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  return (server.address() as AddressInfo).port;
}

async function start(t: TestContext) {
  const provider = await startWebSocketProvider();
  t.after(() => provider.close());
  provider.greeting = JSON.stringify({ type: 'session.created', session: { id: 'sess_1' } });
  provider.serve = (socket) => {
    readFrames(socket.connection, Buffer.alloc(0), socket, ({ opcode, payload }) => {
      if (opcode === 8) socket.send(payload, { opcode: 8 });
      else if ((JSON.parse(payload.toString()) as { type: string }).type === 'response.create') {
        socket.send(JSON.stringify({ type: 'response.output_text.delta', delta: 'Hello' }));
        socket.send(JSON.stringify({ type: 'response.done', response: { id: 'resp_1' } }));
      }
    });
  };
  const { port } = await startTestGateway(t, {
    plugins: [auth, providerPlugin({ default: 'openai' })],
    keys: { [secret]: key },
    providers: { openai: { base_url: `http://${provider.host}/v1`, api_key: 'sk-held' } },
  });
  const baseURL = `https://127.0.0.1:${await terminateTls(t, port)}/v1`;
  return { provider, client: new OpenAI({ apiKey: secret, baseURL }) };
}

type Realtime = Pick<OpenAIRealtimeWebSocket, 'on' | 'send' | 'close'>;

/** Talks until the response is done; resolves with what was said. */
function talk(realtime: Realtime): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = '';
    realtime.on('error', reject);
    realtime.on('session.created', () => realtime.send({ type: 'response.create' }));
    realtime.on('response.output_text.delta', ({ delta }) => (text += delta));
    realtime.on('response.done', () => {
      realtime.close();
      resolve(text);
    });
  });
}

test('OpenAIRealtimeWebSocket', async (t) => {
  const { provider, client } = await start(t);
  const realtime = new OpenAIRealtimeWebSocket(
    { model: 'gpt-realtime', dangerouslyAllowBrowser: true },
    client,
  );
  assert.equal(await talk(realtime), 'Hello');
  const [socket] = provider.sockets;
  assert.equal(socket?.url, '/v1/realtime?model=gpt-realtime');
  assert.equal(socket?.headers.authorization, 'Bearer sk-held');
  assert.ok(!socket?.rawHeaders.some((value) => value.includes(secret)));
});

test('OpenAIRealtimeWS', async (t) => {
  const { OpenAIRealtimeWS } = await import('openai/realtime/ws');
  const { provider, client } = await start(t);
  assert.equal(await talk(new OpenAIRealtimeWS({ model: 'gpt-realtime', options: { ca } }, client)), 'Hello');
  assert.equal(provider.sockets[0]?.headers.authorization, 'Bearer sk-held');
});
