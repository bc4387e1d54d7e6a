import type { EncodeReport } from '../dialects/canonical/encode-report.ts';
import { hasDotSegment } from '../dialects/dot-segment.ts';
import type { UpstreamPlan } from '../dialects/upstream-plan.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import { ChangedBody } from '../pipeline/attempt-body.ts';
import type { AttemptBody, JsonPath, JsonValue } from '../pipeline/context.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import { setAt } from '../pipeline/json-splice.ts';
import type { MayBeLarge } from '../pipeline/large-document.ts';
import { callerKeyHeader } from '../pipeline/keys.ts';
import { headerValue } from '../ports/header-list.ts';
import type { Target } from '../pipeline/router.ts';
import type { ToldTrace } from '../base/trace-context.ts';
import type { UpstreamRequest } from '../ports/transport.ts';
import { forwardRequestHeaders, type ForwardOptions } from './forward-headers.ts';
import type { Translation } from './translation.ts';
import type { TryParts } from './try-parts.ts';

/** The request's body, or what config and attempt hooks made of it. */
export type SentBody = Pick<
  AttemptBody,
  'loaded' | 'changed' | 'json' | 'text' | 'bytes' | 'outgoing' | 'hold'
> &
  MayBeLarge;

export interface OutgoingRequest {
  readonly request: UpstreamRequest;
  /** Usage was asked for on the client's behalf. */
  readonly stripUsage: boolean;
}

/** The body that this attempt sends. */
export function sentBody(exchange: Exchange): SentBody {
  const { sent } = exchange;
  return sent?.changed === true ? sent : exchange.body;
}

/** The body that this attempt sends, with what its host wants otherwise; `report` is told what that leaves out. */
export function editedBody(
  exchange: Exchange,
  edit: NonNullable<Extract<UpstreamPlan, { readonly kind: 'pass' }>['edit']>,
  report: EncodeReport,
): SentBody {
  const base = sentBody(exchange);
  const body = new ChangedBody(base);
  edit(
    {
      get json() {
        return body.json;
      },
      set: (path, value) => body.set(path, value as JsonValue),
      remove: (path) => body.remove(path),
    },
    report,
  );
  return body.changed ? body : base;
}

/** The client's own request, passed on in `body`. */
export function passedRequest(
  parts: TryParts,
  path: string,
  body: SentBody,
  trace: ToldTrace | undefined,
): OutgoingRequest {
  const { exchange, target } = parts;
  const { facts } = exchange;
  const usage = usageRequest(exchange, body, target);
  const bodyChanged = body.changed || usage !== undefined;
  const headers = clientHeaders(parts, { bodyChanged, trace, translated: undefined });
  addTargetHeaders(headers, target);
  const encoding = exchange.endpoint.modelled ? 'identity' : exchange.header('accept-encoding');
  if (encoding !== undefined) headers.push('accept-encoding', encoding);
  const outgoing = usage ?? (body.loaded ? body.outgoing : undefined);
  let payload: UpstreamRequest['body'] = null;
  if (outgoing !== undefined) {
    payload = outgoing.length > 0 || exchange.body.present ? outgoing : null;
    facts.requestBytes = outgoing.length;
  } else if (exchange.body.present) {
    payload = exchange.body.stream();
    const length = exchange.header('content-length');
    if (length !== undefined) headers.push('content-length', length);
    facts.requestBytes = Number(length ?? 0);
  }
  const request = upstreamRequest(parts, exchange.method, path, headers, payload);
  return { request, stripUsage: usage !== undefined };
}

/** The request in the wire of its target. */
export function translatedRequest(
  parts: TryParts,
  { encoded }: Translation,
  trace: ToldTrace | undefined,
): OutgoingRequest {
  const speaksAnthropic = parts.target.headers.includes('anthropic-version');
  const translated = { speaksAnthropic };
  const headers = clientHeaders(parts, { bodyChanged: true, trace, translated });
  addTargetHeaders(headers, parts.target);
  const body = typeof encoded.body === 'string' ? Buffer.from(encoded.body, 'utf8') : encoded.body;
  headers.push('content-type', encoded.contentType ?? 'application/json', 'accept-encoding', 'identity');
  headers.push(...(encoded.headers ?? []));
  parts.exchange.facts.requestBytes = body.length;
  return { request: upstreamRequest(parts, 'POST', encoded.path, headers, body), stripUsage: false };
}

function upstreamRequest(
  { target, options }: TryParts,
  method: string,
  path: string,
  headers: readonly string[],
  body: UpstreamRequest['body'],
): UpstreamRequest {
  return {
    origin: target.origin,
    guarded: target.guarded,
    method,
    path: target.basePath + withoutDotSegments(path),
    headers,
    body,
    connectTimeoutMs: options.connectTimeoutMs,
    headTimeoutMs: options.headTimeoutMs,
    idleTimeoutMs: options.idleTimeoutMs,
  };
}

/** A model becomes a part of some hosts' paths, and may not lead out of them. Throws `invalid_request`. */
function withoutDotSegments(path: string): string {
  const end = path.indexOf('?');
  if (!hasDotSegment(end === -1 ? path : path.slice(0, end))) return path;
  throw new GatewayError(
    'invalid_request',
    'The name of the model holds a "." or ".." between slashes, and this provider has it in its path. Send the plain name.',
    { param: 'model' },
  );
}

function clientHeaders(
  { exchange, target, options, keyPrefix }: TryParts,
  own: Pick<ForwardOptions, 'bodyChanged' | 'trace' | 'translated'>,
): string[] {
  return forwardRequestHeaders(exchange.headers, exchange.headerNames, {
    passCredentials: target.passAuthorization,
    dropAuthorization: exchange.get(callerKeyHeader) === 'authorization',
    keyPrefix,
    bodyChanged: own.bodyChanged,
    trace: own.trace,
    translated: own.translated,
    forward: options.forwardHeaders,
    sensitive: options.sensitiveHeaders,
  });
}

/** The credential always; the row's other headers where the client has not sent its own. */
function addTargetHeaders(headers: string[], target: Target): void {
  const { headers: own } = target;
  for (let i = 0; i < own.length; i += 2) {
    const name = own[i] as string;
    if (headerValue(headers, name.toLowerCase()) === undefined) headers.push(name, own[i + 1] as string);
  }
}

/** The body with `stream_options.include_usage`, where a chat client streams without asking for usage; else undefined. */
function usageRequest(exchange: Exchange, body: SentBody, target: Target): Buffer | undefined {
  if (exchange.endpoint.id !== 'chat.completions' || target.usageInStream !== 'on_request') return undefined;
  if (!exchange.facts.stream || exchange.dialect.usageStripper === undefined) return undefined;
  const { json } = body;
  if (typeof json !== 'object' || json === null || Array.isArray(json)) return undefined;
  const options = json['stream_options'];
  if (options === undefined || options === null)
    return bytesWith(body, ['stream_options'], { include_usage: true });
  if (typeof options !== 'object' || Array.isArray(options) || options['include_usage'] === true)
    return undefined;
  return bytesWith(body, ['stream_options', 'include_usage'], true);
}

function bytesWith(body: SentBody, path: JsonPath, value: JsonValue): Buffer {
  return body.large?.set(path, value).bytes ?? Buffer.from(setAt(body.text, path, value), 'utf8');
}
