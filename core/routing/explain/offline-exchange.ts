import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { stringify } from 'lossless-json';
import type { Dialect } from '../../dialects/dialect.ts';
import type { DialectName } from '../../dialects/endpoint.ts';
import { matchEndpoint } from '../../dialects/match-endpoint.ts';
import { AnswerHeaders } from '../../pipeline/answer-headers.ts';
import { ClientAddresses } from '../../connection/client-address.ts';
import { BufferBudget, IncomingRequest } from '../../connection/incoming.ts';
import { ResponseSink } from '../../connection/sink.ts';
import { readTraceHeaders } from '../../pipeline/trace-headers.ts';
import { compilePipeline } from '../../pipeline/compile.ts';
import { Exchange } from '../../pipeline/exchange.ts';
import type { Clock } from '../../ports/clock.ts';
import { HeaderNames } from '../../base/header-names.ts';
import type { RequestFile } from './request-file.ts';

/** What a request of a file is understood with. */
export interface OfflineSetup {
  readonly dialects: ReadonlyMap<DialectName, Dialect>;
  readonly clock: Clock;
  /** The gateway's own, each with its dash, the preferred one first. */
  readonly prefixes: readonly string[];
  /** `server.base_path`. */
  readonly basePath: string;
}

/** Longest body of a request in a file. */
const maxBodyBytes = 64 * 1024 * 1024;
/** Of one connection, or made anew from the body that the file holds. */
const ownHeaders: ReadonlySet<string> = new Set([
  'content-length',
  'content-encoding',
  'transfer-encoding',
  'expect',
]);

/** A request that nobody sent, with its body in memory, as the pipeline sees one. Throws `invalid_header`. */
export async function offlineExchange(request: RequestFile, setup: OfflineSetup): Promise<Exchange> {
  const { dialects, clock, prefixes, basePath } = setup;
  const [url = '/', query] = splitQuery(request.path);
  const path = url.startsWith(`${basePath}/`) && basePath !== '/' ? url.slice(basePath.length) : url;
  const body = Buffer.from(textOf(request.body), 'utf8');
  const message = messageOf(request, body);
  const endpoint = matchEndpoint(request.method, path);
  const dialect = dialects.get(endpoint.dialect) ?? dialects.get('openai-chat');
  if (dialect === undefined) throw new Error('The openai-chat dialect is missing.');
  const response = new ServerResponse(message);
  const limits = {
    maxBytes: maxBodyBytes,
    idleTimeoutMs: 60_000,
    minBytesPerSecond: 0,
    totalTimeoutMs: 60_000,
    budget: new BufferBudget(2 * maxBodyBytes),
  };
  const exchange = new Exchange({
    incoming: new IncomingRequest(message, response, limits, false),
    sink: new ResponseSink(response, 0),
    matched: { pipeline: compilePipeline({ name: 'offline', match: {}, plugins: [] }, []), path, endpoint },
    ...{ dialect, generation: 'offline', query },
    bodyBounds: { maxBytes: maxBodyBytes, maxMembers: 200_000, maxDepth: 128 },
    headerNames: new HeaderNames(prefixes),
    answerHeaders: new AnswerHeaders(prefixes),
    clientAddresses: new ClientAddresses([]),
    now: clock.now(),
    monotonic: clock.monotonic(),
  });
  readTraceHeaders(exchange);
  await exchange.body.load();
  return exchange;
}

function splitQuery(path: string): [url: string, query: string] {
  const at = path.indexOf('?');
  return at === -1 ? [path, ''] : [path.slice(0, at), path.slice(at)];
}

function textOf(body: RequestFile['body']): string {
  if (body === undefined) return '';
  return typeof body === 'string' ? body : (stringify(body) ?? '');
}

function messageOf({ method, path, headers }: RequestFile, body: Buffer): IncomingMessage {
  const message = new IncomingMessage(new Socket());
  message.method = method;
  message.url = path;
  const given = Object.entries(headers).filter(([name]) => !ownHeaders.has(name.toLowerCase()));
  const all: [string, string][] = [...given, ['content-length', String(body.length)]];
  if (!given.some(([name]) => name.toLowerCase() === 'content-type'))
    all.push(['content-type', 'application/json']);
  message.rawHeaders = all.flat();
  message.headers = Object.fromEntries(all.map(([name, value]) => [name.toLowerCase(), value]));
  if (body.length > 0) message.push(body);
  message.push(null);
  message.complete = true;
  return message;
}
