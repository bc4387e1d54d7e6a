import { GatewayError } from '../errors/gateway-error.ts';
import { rpcError } from '../errors/rpc-error.ts';
import type { Answer } from './answer.ts';
import type { Exchange } from './exchange.ts';
import { bearerChallenge, rpcRequestId } from './keys.ts';
import { type HeaderList, withoutHeader } from '../ports/header-list.ts';
import { type codingOf, decodeWhole } from '../connection/content-encoding.ts';
import type { MaybePromise } from './context.ts';

/** Reason phrases that Node does not know; existing clients know the statuses. */
const statusTexts: Readonly<Record<number, string>> = {
  246: 'Hooks failed',
  446: 'Hooks failed',
  499: 'Client closed',
};

/** Sends the head of an answer: its own headers, the length when it is known, and the gateway's headers. */
export function sendHead(
  exchange: Exchange,
  status: number,
  headers: HeaderList,
  contentLength?: number,
): void {
  const list = [...headers];
  if (contentLength !== undefined) list.push('content-length', String(contentLength));
  exchange.answerHeaders.append(exchange, list);
  if (exchange.incoming.awaitsContinue) list.push('connection', 'close');
  exchange.sink.head(status, list, statusTexts[status]);
}

/** A JSON answer of the gateway itself. */
export function jsonAnswer(status: number, value: unknown, headers: readonly string[] = []): Answer {
  return jsonTextAnswer(status, JSON.stringify(value), headers);
}

/** The same of a value that has been written. */
export function jsonTextAnswer(status: number, text: string, headers: readonly string[] = []): Answer {
  return {
    status,
    headers: ['content-type', 'application/json', ...headers],
    body: Buffer.from(text, 'utf8'),
    source: 'gateway',
  };
}

/** The answer for an error, in the shape of the client's API. */
export function errorAnswer(exchange: Exchange, error: GatewayError): Answer {
  if (exchange.matched.route) return adminErrorAnswer(error);
  if (exchange.endpoint.id === 'mcp') return rpcErrorAnswer(exchange, error);
  return {
    status: error.status,
    headers: ['content-type', 'application/json', ...error.headers],
    body: Buffer.from(exchange.dialect.encodeError(error, exchange.id)),
    source: error.source,
  };
}

/** `{ "success": false, "data": { "message", "errorCode" } }`: the shape of the administration interface. */
function adminErrorAnswer(error: GatewayError): Answer {
  const body = {
    success: false,
    data: { message: error.message, errorCode: error.adminCode },
    ...error.extra,
  };
  return jsonAnswer(error.status, body, error.headers);
}

/** These concern what a message asks for, not the HTTP request: a client reads them in a successful answer. */
const ofMessages: ReadonlySet<string> = new Set([
  'mcp_capability_refused',
  'mcp_connection_missing',
  'hooks_failed',
]);

/** The headers of the error; refusals of the credential tell the client where to get a token (RFC 6750, RFC 9728). */
function challenged(exchange: Exchange, error: GatewayError): readonly string[] {
  const { code, status, headers, source } = error;
  const challenge = exchange.get(bearerChallenge);
  const lacksScope = code === 'scope_missing';
  if (challenge === undefined || source === 'provider' || (status !== 401 && !lacksScope)) return headers;
  let reason = lacksScope ? 'error="insufficient_scope", ' : '';
  // A request without any credential gets no error code (RFC 6750, 3.1).
  const hasCredential = code !== 'key_missing' || exchange.header('authorization') !== undefined;
  if (status === 401 && hasCredential) reason = 'error="invalid_token", ';
  const value = `Bearer ${reason}scope="${challenge.scope}", resource_metadata="${challenge.resourceMetadata}"`;
  return [...withoutHeader(headers, 'www-authenticate'), 'www-authenticate', value];
}

/** A JSON-RPC error: the shape in which clients of MCP expect errors. */
function rpcErrorAnswer(exchange: Exchange, error: GatewayError): Answer {
  const id = exchange.get(rpcRequestId) ?? null;
  const seen = id !== null && ofMessages.has(error.code) ? 200 : error.status;
  return jsonAnswer(seen, rpcError(exchange.id, id, error), challenged(exchange, error));
}

/** Makes a `GatewayError` of anything thrown; an unexpected value is reported as `internal` without its text. */
export function asGatewayError(thrown: unknown): GatewayError {
  if (GatewayError.is(thrown)) return thrown;
  return new GatewayError(
    'internal',
    'The gateway failed to handle this request. Its log says why, under the request id.',
    {
      cause: thrown,
    },
  );
}

/** Largest decoded size of a compressed answer that is read. */
export const maxDecodedBytes = 64 * 1024 * 1024;

/** A whole body without its content coding. Throws `upstream_invalid` for an unknown coding. */
export function decodedBody(coding: ReturnType<typeof codingOf>, body: Buffer): MaybePromise<Buffer> {
  if (coding === 'identity') return body;
  if (coding !== 'unknown') return decodeWhole(body, coding, maxDecodedBytes);
  throw new GatewayError(
    'upstream_invalid',
    'The answer is compressed in a way that the gateway cannot read.',
  );
}
