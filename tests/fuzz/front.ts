/** The HTTP front of a gateway in this process, on loopback: headers, bodies, and bytes that are no request at all. */
import net from 'node:net';
import fc from 'fast-check';
import { createMockTransport } from '../../adapters/mock/transport.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { realClock } from '../../core/lifecycle/recording-services.test-support.ts';
import type { Transport, UpstreamRequest } from '../../core/ports/transport.ts';
import auth from '../../plugins/auth/index.ts';
import cache from '../../plugins/cache/index.ts';
import guardrails from '../../plugins/guardrails/index.ts';
import policies from '../../plugins/policies/index.ts';
import requestParameters from '../../plugins/request-parameters/index.ts';
import { providerPlugin, startTestGateway, type TestGateway } from '../kit/gateway-kit.ts';
import { until } from '../kit/http-kit.ts';
import { testKey } from '../kit/plugin-kit.ts';
import type { Closing } from '../kit/postgres-kit.ts';
import { cuts, editedBytes, piecesOf } from './bytes.ts';
import {
  framings,
  hidden,
  requestBytes,
  requests,
  secret,
  strayHeaders,
  type FuzzedRequest,
} from './front-values.ts';
import { must, target, type FuzzTarget } from './target.ts';

/** A gateway whose providers all answer in this process, and the paths that they were asked for. */
interface FuzzedGateway {
  readonly gateway: TestGateway;
  readonly seen: string[];
}

async function openGateway(closing: Closing): Promise<FuzzedGateway> {
  const mock = createMockTransport({ clock: realClock });
  const seen: string[] = [];
  const here = (request: UpstreamRequest): UpstreamRequest => {
    seen.push(request.path);
    return { ...request, origin: 'mock:' };
  };
  const transport: Transport = {
    send: (request, handler) => mock.send(here(request), handler),
    close: () => mock.close(),
  };
  const unreachable = (): Promise<never> =>
    Promise.reject(new GatewayError('fetch_failed', 'Nothing is fetched here.'));
  const gateway = await startTestGateway(closing, {
    transport,
    keys: { [secret]: testKey({ id: 'fuzzed', kind: 'owner' }) },
    guardedFetch: { fetch: () => ({ answer: unreachable(), abort: () => undefined }) },
    configs: { main: { provider: 'mock' } },
    server: { max_body_bytes: 200_000, header_timeout_ms: 5000, body_idle_timeout_ms: 5000 },
    pipelines: [
      {
        name: 'locked',
        match: { path: '/chat/**' },
        plugins: [
          auth,
          policies,
          { plugin: cache, options: { mode: 'simple' } },
          guardrails,
          requestParameters,
          providerPlugin({ default: 'mock' }),
        ],
      },
      { name: 'open', match: { path: '/**' }, plugins: [guardrails, providerPlugin({ default: 'mock' })] },
    ],
  });
  return { gateway, seen };
}

/** Writes the pieces on a connection of its own, ends it, and resolves with everything that came back. */
function exchange(port: number, pieces: readonly Buffer[]): Promise<Buffer> {
  return new Promise((resolve) => {
    const received: Buffer[] = [];
    const socket = net.connect({ port, host: '127.0.0.1', allowHalfOpen: true, noDelay: true });
    socket.on('data', (chunk: Buffer) => received.push(chunk));
    socket.on('end', () => socket.destroy());
    socket.on('error', () => undefined);
    socket.on('close', () => resolve(Buffer.concat(received)));
    socket.on('connect', () => {
      for (const piece of pieces) socket.write(piece);
      socket.end();
    });
  });
}

interface Reply {
  readonly status: number;
  readonly body: string;
}

const heads =
  /^HTTP\/1\.1 (\d{3}) [\x20-\x7e]*\r\n((?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+: ?[\x20-\x7e\x80-\xff\t]*\r\n)*)\r\n/;

/** The answers in what came back; throws for bytes that are none. A last one may be torn. */
function repliesIn(bytes: Buffer): readonly Reply[] {
  const replies: Reply[] = [];
  let rest = bytes.toString('latin1');
  while (rest !== '') {
    const [head, status = '', headers = ''] = heads.exec(rest) ?? [];
    if (head === undefined) {
      must(
        rest.length < 9 || !rest.includes('\r\n\r\n'),
        () => `No answer: ${JSON.stringify(rest.slice(0, 500))}`,
      );
      break;
    }
    rest = rest.slice(head.length);
    const length = /^content-length: (\d+)\r$/im.exec(headers)?.[1];
    const isChunked = /^transfer-encoding: chunked\r$/im.test(headers);
    const hasBody = !(status.startsWith('1') || status === '204' || status === '304');
    const end = !hasBody ? 0 : isChunked ? chunksEnd(rest) : Number(length ?? rest.length);
    replies.push({ status: Number(status), body: Buffer.from(rest.slice(0, end), 'latin1').toString() });
    rest = rest.slice(end);
  }
  return replies;
}

function chunksEnd(text: string): number {
  const end = text.indexOf('\r\n0\r\n\r\n');
  return end === -1 ? (text.startsWith('0\r\n\r\n') ? 5 : text.length) : end + 7;
}

/** No failure of the gateway itself, and nothing of the request left open. */
async function mustBeWell({ gateway }: FuzzedGateway, bytes: Buffer, sent: number): Promise<void> {
  for (const { status, body } of repliesIn(bytes))
    must(
      status !== 500 || !/"(internal|internal_error|plugin_error|plugin_failed|reply_invalid)"/.test(body),
      () => `${status}: ${body.slice(0, 800)} ${JSON.stringify(gateway.lines.slice(-2))}`,
    );
  must(
    gateway.pluginErrors.length === 0,
    () => `Plugins fail: ${gateway.pluginErrors.join()} ${JSON.stringify(gateway.lines.slice(-2))}`,
  );
  must(bytes.length <= 1_000_000 + 200 * sent, () => `${bytes.length} bytes answer ${sent}.`);
  if (gateway.held() > 0 || gateway.server.connections() > 0)
    await until(() => gateway.held() === 0 && gateway.server.connections() === 0, 'the end of the request');
}

interface Pieces {
  readonly bytes: Buffer;
  readonly places: readonly number[] | 'each';
}

interface Smuggling {
  /** Index in `framings`. */
  readonly framing: number;
  readonly version: string;
  readonly method: string;
  readonly headers: readonly (readonly [string, string])[];
  readonly places: readonly number[] | 'each';
}

const smuggling: fc.Arbitrary<Smuggling> = fc.record({
  framing: fc.nat(framings.length - 1),
  version: fc.oneof(
    { arbitrary: fc.constant('1.1'), weight: 4 },
    fc.constantFrom('1.0', '1.2', '2.0', '0.9'),
  ),
  method: fc.constantFrom('POST', 'GET', 'PUT', 'OPTIONS', 'HEAD', 'DELETE'),
  headers: strayHeaders,
  places: cuts,
});
const startOfSession = /^(?:connection|upgrade|expect|content-length|transfer-encoding)$/i;

/** Targets of this file. */
export const frontTargets: readonly FuzzTarget[] = [
  target('front-headers', async (closing) => {
    const fuzzed = await openGateway(closing);
    return {
      values: requests,
      async check(given: FuzzedRequest) {
        const bytes = requestBytes(given);
        await mustBeWell(fuzzed, await exchange(fuzzed.gateway.port, [bytes]), bytes.length);
      },
    };
  }),
  target('front-bytes', async (closing) => {
    const fuzzed = await openGateway(closing);
    return {
      values: fc.record({
        bytes: editedBytes(
          fc.array(requests.map(requestBytes), { minLength: 1, maxLength: 3 }).map(Buffer.concat),
          4,
        ),
        places: cuts,
      }),
      async check({ bytes, places }: Pieces) {
        const answer = await exchange(fuzzed.gateway.port, piecesOf(bytes, places));
        await mustBeWell(fuzzed, answer, bytes.length);
      },
    };
  }),
  target('front-smuggling', async (closing) => {
    const fuzzed = await openGateway(closing);
    return {
      values: smuggling,
      async check({ framing, version, method, headers, places }: Smuggling) {
        const [, head, body] = framings[framing] as (typeof framings)[number];
        const content = body(hidden);
        const lines = [
          `${method} /v1/first HTTP/${version}`,
          'Host: gateway',
          ...headers
            .filter(([name]) => !startOfSession.test(name))
            .map(([name, value]) => `${name}: ${value}`),
          head(content.length),
        ];
        const bytes = Buffer.from(`${lines.join('\r\n')}\r\n\r\n${content}`, 'latin1');
        fuzzed.seen.length = 0;
        await mustBeWell(fuzzed, await exchange(fuzzed.gateway.port, piecesOf(bytes, places)), bytes.length);
        const served = fuzzed.seen.filter((path) => path.includes('hidden'));
        must(served.length === 0, () => `The hidden request is served: ${fuzzed.seen.join(' ')}`);
      },
    };
  }),
];
