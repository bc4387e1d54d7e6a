import { wholeCharacters } from '../../core/base/whole-characters.ts';
import {
  type Outcome,
  providerCall,
  type RequestContext,
  type ToldCall,
} from '../../core/pipeline/plugin.ts';
import { loggedAttempt, type RequestFacts } from '../../core/pipeline/facts.ts';
import { noUsage, type Usage } from '../../core/dialects/usage.ts';
import { quoteWithin } from '../../core/base/json.ts';
import type { Redaction } from '../../core/redaction/redaction.ts';
import { clip, createdAt, duration, list, milliseconds, number, redacted, text } from './members.ts';
import zlib from 'node:zlib';
import type { Transform } from 'node:stream';
import { isUtf8 } from 'node:buffer';
import { isEventStreamType } from '../../core/dialects/stream-event.ts';
import type { BodyRow } from '../../core/ports/request-row.ts';
import type { Clock } from '../../core/ports/clock.ts';

const nothing: KeptBody = { bytes: Buffer.alloc(0), truncated: true };

/** The part of a body row that holds the bodies of request and response. */
type LoggedBodies = Pick<
  BodyRow,
  'request' | 'response' | 'request_truncated' | 'response_truncated' | 'log_format'
>;

/**
 * Both bodies as text. One format holds for both: `base64` as soon as one of them is no UTF-8, `sse` when the
 * answer is an event stream, `json` when both look like JSON.
 */
export function loggedBodies(request: KeptBody, response: KeptBody, contentType: string): LoggedBodies {
  const isText = isUtf8(request.bytes) && isUtf8(response.bytes);
  const encoding = isText ? 'utf8' : 'base64';
  return {
    request: request.bytes.toString(encoding),
    response: response.bytes.toString(encoding),
    request_truncated: request.truncated,
    response_truncated: response.truncated,
    log_format: isText ? textFormat(request.bytes, response.bytes, contentType) : 'base64',
  };
}

function textFormat(request: Buffer, response: Buffer, contentType: string): BodyRow['log_format'] {
  if (isEventStreamType(contentType)) return 'sse';
  return looksLikeJson(request) && looksLikeJson(response) ? 'json' : 'text';
}

/**
 * A body after redaction. Empty for a body that is not UTF-8: redaction cannot search it.
 */
export async function redactedBody(
  { bytes, truncated }: KeptBody,
  contentType: string,
  redaction: Redaction | undefined,
  clock: Pick<Clock, 'monotonic'>,
): Promise<KeptBody> {
  if (redaction === undefined || bytes.length === 0) return { bytes, truncated };
  if (!isUtf8(bytes)) return nothing;
  const how = { isEventStream: isEventStreamType(contentType), isTruncated: truncated };
  const redacted = await redaction.body(bytes.toString('utf8'), how, clock);
  return { bytes: Buffer.from(redacted), truncated };
}

/** True for a body that starts like an object or a list, and for an empty one. */
function looksLikeJson(bytes: Buffer): boolean {
  let at = 0;
  while (at < bytes.length && (bytes[at] as number) <= 0x20) at++;
  return at === bytes.length || bytes[at] === 0x7b || bytes[at] === 0x5b;
}

/** True when a JSON document can be part of a row unescaped. */
export function isEmbeddable(document: Buffer, maxBytes: number): boolean {
  // A line of the journal is a row: a document of several lines is escaped like any other text.
  return document.length <= maxBytes && !document.includes(10) && isUtf8(document);
}

/** Logged parts of the bodies of a call to a provider. */
export interface CallBodies {
  /** `own`: the same as the body of the request. */
  readonly sent: KeptBody | 'own' | false | undefined;
  readonly answered: KeptBody | false | undefined;
}

/** The last body sent to a provider for a request, and the provider's answer where it was translated. */
export function callBodies(context: RequestContext, maxBytes: number): CallBodies {
  const call = context.get(providerCall);
  const cut = (body: KeptBody | undefined) => body && cutBody(body.bytes, body.truncated, maxBytes);
  return { sent: call?.body === 'own' ? 'own' : cut(call?.body), answered: cut(call?.answerBody) };
}

/** JSON of a call, escaped for a JSON string: a row holds it as one. */
export function callText({ request, answer }: ToldCall, { sent, answered }: CallBodies): string {
  const told = withMembers(request, sent === 'own' ? ',\\"own\\":true' : bodyMembers(sent));
  const response =
    answer === undefined ? '' : `,\\"response\\":${withMembers(answer, bodyMembers(answered))}`;
  return `{\\"request\\":${told}${response}}`;
}

function withMembers(object: string, members: string): string {
  return `${object.slice(0, -1)}${members}}`;
}

function bodyMembers(kept: KeptBody | false | undefined): string {
  if (kept === undefined || kept === false || (kept.bytes.length === 0 && !kept.truncated)) return '';
  const isText = isUtf8(kept.bytes);
  const base64 = isText ? '' : ',\\"base64\\":true';
  const truncated = kept.truncated ? ',\\"truncated\\":true' : '';
  return `,\\"body\\":${quoteWithin(kept.bytes.toString(isText ? 'utf8' : 'base64'))}${base64}${truncated}`;
}

/** The logged part of a body. */
export interface KeptBody {
  readonly bytes: Buffer;
  readonly truncated: boolean;
}

const empty = Buffer.alloc(0);

/**
 * At most `maxBytes` of a body, cut between characters and freed from gzip, br or deflate. A promise only when
 * something has to be decoded. An unknown or damaged encoding is kept unchanged.
 */
export function keepBody(
  body: Buffer = empty,
  options: { readonly encoding: string; readonly truncated: boolean; readonly maxBytes: number },
): KeptBody | Promise<KeptBody> {
  const { encoding, truncated, maxBytes } = options;
  const decoder = body.length > 0 && encoding !== '' ? decoderFor(encoding, body) : undefined;
  return decoder === undefined
    ? cutBody(body, truncated, maxBytes)
    : decode(decoder, body, truncated, maxBytes);
}

/** At most `maxBytes` of a body, cut between characters. */
function cutBody(body: Buffer, truncated: boolean, maxBytes: number): KeptBody {
  if (body.length > maxBytes) return { bytes: wholeCharacters(body.subarray(0, maxBytes)), truncated: true };
  return { bytes: truncated ? wholeCharacters(body) : body, truncated };
}

function decoderFor(encoding: string, body: Buffer): Transform | undefined {
  const name = encoding.trim().toLowerCase();
  if (name === 'br')
    return zlib.createBrotliDecompress({ finishFlush: zlib.constants.BROTLI_OPERATION_FLUSH });
  // The kept bytes may be cut anywhere; this flush returns the decoded part instead of an error.
  const options = { finishFlush: zlib.constants.Z_SYNC_FLUSH };
  if (name === 'gzip' || name === 'x-gzip') return zlib.createGunzip(options);
  if (name !== 'deflate') return undefined;
  // Some servers send bare deflate data under this name; the zlib wrapper begins with method 8.
  const isWrapped = ((body[0] as number) & 0x0f) === 8;
  return isWrapped ? zlib.createInflate(options) : zlib.createInflateRaw(options);
}

/** Stops at the bound, so that a small body cannot expand into a large one, and keeps the part before any damage. */
function decode(decoder: Transform, body: Buffer, truncated: boolean, maxBytes: number): Promise<KeptBody> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let length = 0;
    const finish = (complete: boolean): void => {
      if (length === 0 && !complete) resolve(cutBody(body, truncated, maxBytes));
      else resolve(cutBody(Buffer.concat(chunks), truncated || !complete, maxBytes));
    };
    decoder.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      length += chunk.length;
      if (length <= maxBytes) return;
      decoder.removeAllListeners('end').destroy();
      finish(true);
    });
    decoder.on('end', () => finish(true));
    decoder.on('error', () => finish(false));
    decoder.end(body);
  });
}

/**
 * The log row of one request as a line of JSON, with path, error message, metadata and decision redacted; `common`
 * holds the members shared with other rows, `now` is the monotonic clock at its end. Empty members (empty, zero, false)
 * are left out, and the store reads them as such: they would be half of a line, and each byte is written, shipped and
 * parsed. Written by hand, because it runs for every request.
 */
export function requestLine(
  context: RequestContext,
  outcome: Outcome,
  common: string,
  now: number,
  redaction?: Redaction,
): string {
  const { facts } = context;
  const { error, price } = outcome;
  const usage = facts.usage ?? noUsage;
  const sentAt = facts.upstreamStartedAt;
  const asked = sentAt > 0 ? (facts.upstreamEndedAt || now) - sentAt : 0;
  const upstream = facts.openSince > 0 ? asked : Math.min(asked, outcome.latencyMs);
  return (
    `{"id":"${context.id}","created_at":"${createdAt(context.startedAt)}"${common}` +
    (error === undefined ? '' : text('error_message', clip(redacted(error.message, redaction), 1024))) +
    duration('latency_ms', outcome.latencyMs) +
    duration('upstream_ms', upstream) +
    duration('gateway_ms', outcome.latencyMs - upstream) +
    duration('first_byte_ms', since(sentAt, facts.firstByteAt)) +
    duration('first_token_ms', since(sentAt, facts.firstTokenAt)) +
    number('request_bytes', facts.requestBytes) +
    number('response_bytes', facts.responseBytes) +
    (usage === noUsage ? '' : usageMembers(usage)) +
    (facts.isUsageEstimated ? ',"usage_estimated":true' : '') +
    `,"cost":"${price.cost}"` +
    (facts.lostCost === 0 ? '' : `,"lost_cost":"${facts.lostCost.toFixed(12)}"`) +
    (facts.config === '' ? '' : planMembers(facts)) +
    text('decision', redaction === undefined ? facts.decision : redaction.json(facts.decision)) +
    guardrails(facts.verdicts) +
    limits(facts.limits, error?.limit) +
    list('dropped', facts.dropped) +
    metadata(redaction === undefined ? facts.metadata : redaction.metadata(facts.metadata)) +
    text('trace_id', clip(facts.traceId, 255)) +
    text('span_id', clip(facts.spanId, 255)) +
    text('parent_span_id', clip(facts.parentSpanId, 255)) +
    text('span_name', clip(facts.spanName, 255)) +
    '}'
  );
}

/** Path of the request through its config, with attempts and retries. */
function planMembers(facts: RequestFacts): string {
  const { attemptRecords, option, retries } = facts;
  const told =
    attemptRecords.length === 0 ? '' : text('tries', JSON.stringify(attemptRecords.map(loggedAttempt)));
  return text('option', option) + number('retries', retries) + told;
}

function usageMembers(usage: Usage): string {
  return (
    number('prompt_tokens', usage.promptTokens) +
    number('completion_tokens', usage.completionTokens) +
    number('total_tokens', usage.totalTokens) +
    number('cached_tokens', usage.cachedTokens) +
    number('cache_write_tokens', usage.cacheWriteTokens) +
    number('reasoning_tokens', usage.reasoningTokens) +
    number('input_audio_tokens', usage.inputAudioTokens) +
    number('output_audio_tokens', usage.outputAudioTokens)
  );
}

function guardrails(verdicts: RequestFacts['verdicts']): string {
  if (verdicts.length === 0) return '';
  let told = '';
  for (const { name, hook, verdict, ms } of verdicts) {
    const of = `\\"name\\":${quoteWithin(clip(name, 128))},\\"hook\\":\\"${hook}\\"`;
    told += `${told && ','}{${of},\\"verdict\\":\\"${verdict}\\",\\"ms\\":${milliseconds(ms)}}`;
  }
  return `,"guardrails":"[${told}]"`;
}

/** The limit that refused the request comes first; targets passed over for the same limit do not repeat it. */
function limits(passedOver: readonly string[], refusedBy: string | undefined): string {
  if (refusedBy === undefined) return list('limits', passedOver);
  return list('limits', [refusedBy, ...passedOver.filter((limit) => limit !== refusedBy)]);
}

function metadata(values: RequestFacts['metadata']): string {
  for (const _ in values) return `,"metadata":${JSON.stringify(values)}`;
  return '';
}

function since(start: number, at: number): number {
  return at > 0 && start > 0 ? at - start : 0;
}
