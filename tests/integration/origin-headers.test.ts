// Headers of a provider that would act on the gateway's origin, or on its connection, reach no client on any way.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import net, { type AddressInfo } from 'node:net';
import { test, type TestContext } from 'node:test';
import auth from '../../plugins/auth/index.ts';
import cache from '../../plugins/cache/index.ts';
import { providerPlugin, startTestGateway } from '../kit/gateway-kit.ts';
import { connect, send } from '../kit/http-kit.ts';
import { callers, handshake, secret } from '../kit/realtime-kit.ts';
import { testKey } from '../kit/plugin-kit.ts';

const hostile = [
  'Set-Cookie: evil=1; Path=/',
  'SET-COOKIE2: evil=1',
  'Strict-Transport-Security: max-age=31536000; includeSubDomains',
  'Clear-Site-Data: "*"',
  'Access-Control-Allow-Origin: *',
  'access-control-allow-credentials: true',
  'Access-Control-Expose-Headers: *',
  'Access-Control-Allow-Private-Network: true',
  'Alt-Svc: h3="evil.example:443"',
  'Refresh: 0; url=https://evil.example',
  'NEL: {"report_to":"evil","max_age":9}',
  'Report-To: {"group":"evil","endpoints":[{"url":"https://evil.example"}]}',
  'Reporting-Endpoints: evil="https://evil.example"',
  'Content-Security-Policy: default-src *',
  'Content-Security-Policy-Report-Only: default-src *; report-uri https://evil.example',
  'Permissions-Policy: camera=*',
  'Feature-Policy: camera *',
  'Document-Policy: force-load-at-top',
  'Origin-Trial: evil',
  'Origin-Agent-Cluster: ?0',
  'Accept-CH: Sec-CH-UA-Model',
  'Critical-CH: Sec-CH-UA-Model',
  'Service-Worker-Allowed: /',
  'Speculation-Rules: "https://evil.example/rules.json"',
  'Use-As-Dictionary: match="/*"',
  'Cross-Origin-Opener-Policy: unsafe-none',
  'Timing-Allow-Origin: *',
  'Public-Key-Pins: pin-sha256="evil"',
  'SourceMap: https://evil.example/map',
  'X-Frame-Options: ALLOWALL',
  'Referrer-Policy: unsafe-url',
  'X-Accel-Redirect: /evil',
  'X-Sendfile: /etc/passwd',
  'X-Lighttpd-Send-File: /etc/passwd',
  'Proxy-Authenticate: Basic realm="evil"',
  'Proxy-Authentication-Info: evil',
  'Proxy-Connection: keep-alive',
  'Keep-Alive: timeout=9999',
  'Trailer: x-trailing',
  'TE: trailers',
  'x-named-one: evil',
  'x-named-two: evil',
  'x-kept: kept',
];
const allowed = new Set(['x-kept']);
const names = hostile
  .map((line) => line.slice(0, line.indexOf(':')).toLowerCase())
  .filter((name) => !allowed.has(name));

const completion = JSON.stringify({
  id: 'c',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
});
const message = JSON.stringify({
  id: 'm',
  type: 'message',
  role: 'assistant',
  model: 'm',
  stop_reason: 'end_turn',
  stop_sequence: null,
  content: [{ type: 'text', text: 'Hi' }],
  usage: { input_tokens: 1, output_tokens: 1 },
});
const chunk =
  'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n';

/** What the provider answers to a request of this head and body, with all that is hostile around it. */
function answerTo(head: string, body: string): string {
  const path = head.split(' ')[1] ?? '';
  const said = (status: string, type: string, text: string): string =>
    `HTTP/1.1 ${status}\r\n${hostile.join('\r\n')}\r\nConnection: keep-alive, x-named-one\r\nConnection: x-named-two\r\ncontent-type: ${type}\r\ntransfer-encoding: chunked\r\n\r\n${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n0\r\nx-trailing: evil\r\nset-cookie: evil=2\r\n\r\n`;
  const upgrade = /\r\nsec-websocket-key: (.+)\r\n/i.exec(head)?.[1];
  if (upgrade !== undefined && !path.includes('declined')) {
    const accept = createHash('sha1')
      .update(`${upgrade}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
      .digest('base64');
    return `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade, x-named-one\r\nConnection: x-named-two\r\nSec-WebSocket-Accept: ${accept}\r\n${hostile.join('\r\n')}\r\n\r\n`;
  }
  if (path.includes('fails')) return said('500 Oh', 'application/json', '{"error":{"message":"no"}}');
  if (path.endsWith('/messages')) return said('200 OK', 'application/json', message);
  if (body.includes('"stream":true')) return said('200 OK', 'text/event-stream', chunk);
  return said('200 OK', 'application/json', completion);
}

async function startHostile(t: TestContext): Promise<string> {
  const server = net.createServer((socket) => {
    let text = '';
    socket.on('error', () => undefined);
    socket.on('data', (data) => {
      text += data.toString('latin1');
      const end = text.indexOf('\r\n\r\n');
      if (end === -1) return;
      const head = text.slice(0, end + 2);
      const length = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1] ?? 0);
      const body = text.slice(end + 4);
      if (body.length < length) return;
      text = '';
      socket.write(answerTo(head, body));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test('no header of a provider acts on the origin or the connection of the gateway', async (t) => {
  const address = await startHostile(t);
  const gateway = await startTestGateway(t, {
    plugins: [auth, { plugin: cache }, providerPlugin({ default: 'plain' })],
    keys: { [secret]: testKey() },
    providers: {
      plain: { base_url: `${address}/v1`, api_key: 'sk' },
      claude: { base_url: `${address}/v1`, api_key: 'sk', dialect: 'anthropic-messages' },
    },
  });
  const check = (way: string, headers: readonly string[]): void => {
    const lower = headers.filter((_, i) => i % 2 === 0).map((name) => name.toLowerCase());
    const gateways = new Set(['keep-alive', 'trailer']);
    assert.deepEqual(
      names.filter((name) => lower.includes(name) && !gateways.has(name)),
      [],
      way,
    );
    assert.doesNotMatch(headers.join('\n'), /evil|9999|x-trailing/, way);
    // A kept answer has few headers; every other one brings all.
    assert.equal(lower.includes('x-kept'), way !== 'an answer from the cache', way);
  };
  const chat = { model: 'm', messages: [{ role: 'user', content: 'Hi' }] };
  const cached = { ...callers, 'x-service-config': '{"provider":"@plain","cache":{"mode":"simple"}}' };
  const ways: Readonly<Record<string, { path: string; method?: string; headers?: object; body?: object }>> = {
    'an ordinary answer': { path: '/v1/chat/completions', body: chat },
    'a stream': { path: '/v1/chat/completions', body: { ...chat, seed: 2, stream: true } },
    'an error': { path: '/v1/fails', body: chat },
    'an answer that is passed through': { path: '/v1/things', method: 'GET' },
    'a translated answer': {
      path: '/v1/chat/completions',
      body: chat,
      headers: { ...callers, 'x-service-provider': '@claude' },
    },
    'an answer that is stored': { path: '/v1/chat/completions', body: { ...chat, seed: 1 }, headers: cached },
    'an answer from the cache': { path: '/v1/chat/completions', body: { ...chat, seed: 1 }, headers: cached },
  };
  for (const [way, { path, method = 'POST', headers = callers, body }] of Object.entries(ways)) {
    const answer = await send(gateway.url, {
      path,
      method,
      headers: headers as Record<string, string>,
      ...(body === undefined ? {} : { body }),
    });
    assert.equal(answer.status, way === 'an error' ? 500 : 200, `${way}: ${answer.text}`);
    if (way === 'an answer from the cache') assert.equal(answer.headers['x-service-cache-status'], 'HIT');
    check(way, answer.rawHeaders);
    assert.doesNotMatch(answer.text, /evil/, way);
  }
  for (const path of ['/v1/realtime?model=m', '/v1/realtime/declined?model=m']) {
    const client = await connect(t, gateway.port);
    client.write(handshake(callers, path));
    const [head = ''] = (await client.until('\r\n\r\n')).split('\r\n\r\n');
    assert.match(head, path.includes('declined') ? /^HTTP\/1\.1 200/ : /^HTTP\/1\.1 101/);
    check(
      path,
      head
        .split('\r\n')
        .slice(1)
        .flatMap((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)]),
    );
    client.socket.destroy();
  }
});
