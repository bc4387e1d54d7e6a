import {
  defineKey,
  definePlugin,
  type MaybePromise,
  type Outcome,
  providerCall,
  type RequestContext,
  type ToldCall,
  Type,
} from '../../core/pipeline/plugin.ts';
import { type CallBody, ShownHeaders } from '../../core/redaction/provider-call.ts';
import { keepsBodies, logRedaction } from '../../core/pipeline/keys.ts';
import { compileRedaction, type Redaction, redactionFaults } from '../../core/redaction/redaction.ts';
import { redactionRules } from '../../core/redaction/redaction-options.ts';
import { CommonMembers, type CommonText, createdAt, number, redacted, text } from './members.ts';
import { clip, wholeCharacters } from '../../core/base/bytes.ts';
import { loggedAttempt, type RequestFacts } from '../../core/pipeline/facts.ts';
import { noUsage, type Usage } from '../../core/dialects/usage.ts';
import { quoteWithin } from '../../core/base/json.ts';
import zlib from 'node:zlib';
import type { Transform } from 'node:stream';
import { isUtf8 } from 'node:buffer';
import { isEventStreamType } from '../../core/dialects/stream-event.ts';
import type { BodyRow, RequestRow } from '../../core/ports/request-row.ts';
import type { Clock } from '../../core/ports/clock.ts';

/** `.000` to `.999`: formatting a fraction costs many times its look-up. */
const thousandths = Array.from({ length: 1000 }, (_, n) => `.${String(n).padStart(3, '0')}`);

/** Three digits after the point, never negative: more digits would be noise and cost time. */
function milliseconds(ms: number): string {
  const micros = ms > 0 ? Math.round(ms * 1000) : 0;
  return `${Math.floor(micros / 1000)}${thousandths[micros % 1000]}`;
}

/** Upper bound of logged bytes of one body; the pipeline keeps as much of an answer. */
const maxKeptBytes = 262_144;

/** True for a request without room in the journal: it did nothing, and its row would need that room. */
const outside = defineKey<boolean>('logger-outside');

/** Member between two JSON bodies of a row. Copying bytes costs half as much as writing a string. */
const responseMember = Buffer.from(',"response":');
const jsonEnd = ',"log_format":"json"';

/** Writes one row per request to the journal, and its bodies to a table of their own. Never delays the client. */
export default definePlugin({
  name: 'logger',
  description:
    'Logs every request with its tokens, cost and latency, and, for authenticated callers, the bodies (with the masked headers of the request, and the request sent to the provider), without the data named in `redact`. Each of these can switch bodies off: the option `bodies`, the settings of the workspace (`logging`), the key (`log_bodies`), and the request itself with the header `debug: false` under the header prefix.',
  schema: Type.Object(
    {
      bodies: Type.Optional(
        Type.Boolean({
          default: true,
          description: 'Also log the bodies of requests and answers, decoded from gzip, br and deflate.',
        }),
      ),
      max_body_bytes: Type.Optional(
        Type.Integer({
          default: maxKeptBytes,
          minimum: 1024,
          maximum: maxKeptBytes,
          description: 'Largest part of each body to keep; a longer body is cut and marked as truncated.',
        }),
      ),
      redact: Type.Optional(redactionRules('requests, answers, metadata, error messages and paths')),
    },
    { additionalProperties: false },
  ),
  capabilities: { keepsResponseBytes: maxKeptBytes },
  check: ({ redact }) => redactionFaults(redact, '/redact'),
  async create({ bodies = true, max_body_bytes: maxBytes = maxKeptBytes, redact = [] }, scope) {
    const { clock, journal, directory } = scope;
    const redaction = compileRedaction(redact, scope.keyPrefix);
    const commonMembers = new CommonMembers(redaction);
    const isBlocking = journal.room().policy === 'block';

    const shown = new ShownHeaders(scope.keyPrefix, redaction && ((value: string) => redaction.text(value)));

    /** The last members of a body row and its closing brace. */
    function rowEnd(context: RequestContext, bodies: CallBodies): string {
      const serviceNames = context.serviceNames();
      const sensitive = context.service('sensitive-headers');
      const config = context.service('config');
      const headers = shown.within(context.headers, { serviceNames, sensitive, config });
      const call = context.get(providerCall);
      if (call === undefined) return `,"request_headers":"${headers}"}`;
      const told = call.told(shown, { serviceNames, sensitive, clientHeaders: context.headers });
      return `,"request_headers":"${headers}","provider_call":"${callText(told, bodies)}"}`;
    }

    async function redactedCall({ sent, answered }: CallBodies): Promise<CallBodies> {
      // Redaction paths name places in the client's wire; they do not apply to a body in another wire.
      const isSearchable = redaction?.hasPaths === false;
      return {
        sent:
          sent === 'own' ? 'own' : isSearchable && sent && (await redactedBody(sent, '', redaction, clock)),
        answered: isSearchable && answered && (await redactedBody(answered, '', redaction, clock)),
      };
    }

    function appendBodies(
      context: RequestContext,
      common: CommonText,
      [request, response, call]: readonly [CallBody, CallBody, CallBodies],
      outcome: Outcome,
    ): void {
      const {
        request: sent,
        response: answered,
        ...rest
      } = loggedBodies(request, response, outcome.responseContentType);
      // In pieces: a joined string would copy long texts once more.
      const start = `${rowStart(context, common)},"request":`;
      const end = `,${JSON.stringify(rest).slice(1, -1)}${rowEnd(context, call)}`;
      journal.append(
        'bodies',
        [start, JSON.stringify(sent), ',"response":', JSON.stringify(answered), end],
        context.facts.workspaceId,
      );
    }

    async function appendRedacted(
      context: RequestContext,
      common: CommonText,
      kept: readonly [CallBody | Promise<CallBody>, CallBody | Promise<CallBody>],
      outcome: Outcome,
    ): Promise<void> {
      const { responseContentType: type } = outcome;
      const request = await redactedBody(await kept[0], '', redaction, clock);
      const response = await redactedBody(await kept[1], type, redaction, clock);
      const call = await redactedCall(callBodies(context, maxBytes));
      appendBodies(context, common, [request, response, call], outcome);
    }

    return {
      keepsCall: (context) => bodies && keepsBodies(directory, context, { error: undefined }),
      ...(isBlocking && {
        admit(context: RequestContext): MaybePromise<void> {
          const room = journal.admit();
          if (room === undefined) return;
          context.set(outside, true);
          return room.then(() => context.set(outside, false));
        },
      }),
      settled(context, outcome): MaybePromise<void> {
        if (redaction !== undefined) context.set(logRedaction, redaction);
        if (isBlocking && context.get(outside) === true) return;
        const { facts } = context;
        const common = commonMembers.of(context, outcome);
        const line = requestLine(context, outcome, common.members, clock.monotonic(), redaction);
        journal.append('requests', line, facts.workspaceId);
        const { requestBody, responseBody } = outcome;
        if (!bodies || !(requestBody?.length || responseBody?.length)) return;
        if (!keepsBodies(directory, context, outcome)) return;
        if (
          redaction === undefined &&
          outcome.requestIsJson &&
          outcome.responseIsJson &&
          requestBody &&
          responseBody
        ) {
          if (isEmbeddable(requestBody, maxBytes) && isEmbeddable(responseBody, maxBytes)) {
            const start = `${rowStart(context, common)},"request":`;
            const row = [
              start,
              requestBody,
              responseMember,
              responseBody,
              jsonEnd + rowEnd(context, callBodies(context, maxBytes)),
            ];
            return journal.append('bodies', row, facts.workspaceId);
          }
        }
        const request = keepBody(requestBody, {
          encoding: '',
          truncated: false,
          maxBytes,
        });
        const response = keepBody(responseBody, {
          encoding: outcome.responseContentEncoding,
          truncated: outcome.responseTruncated,
          maxBytes,
        });
        if (redaction !== undefined) return appendRedacted(context, common, [request, response], outcome);
        const call = callBodies(context, maxBytes);
        if (!('then' in request) && !('then' in response))
          return appendBodies(context, common, [request, response, call], outcome);
        return Promise.all([request, response]).then(([sent, answered]) =>
          appendBodies(context, common, [sent, answered, call], outcome),
        );
      },
    };
  },
});

/** Start of every body row, without the closing brace. */
function rowStart({ id, startedAt }: RequestContext, { place }: CommonText): string {
  return `{"id":"${id}","created_at":"${createdAt(startedAt)}"${place}`;
}

const nothing: CallBody = { bytes: Buffer.alloc(0), truncated: true };

/** The part of a body row that holds the bodies of request and response. */
type LoggedBodies = Pick<
  BodyRow,
  'request' | 'response' | 'request_truncated' | 'response_truncated' | 'log_format'
>;

/**
 * Both bodies as text. One format holds for both: `base64` as soon as one of them is no UTF-8, `sse` when the
 * answer is an event stream, `json` when both look like JSON.
 */
export function loggedBodies(request: CallBody, response: CallBody, contentType: string): LoggedBodies {
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
async function redactedBody(
  { bytes, truncated }: CallBody,
  contentType: string,
  redaction: Redaction | undefined,
  clock: Pick<Clock, 'monotonic'>,
): Promise<CallBody> {
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
function isEmbeddable(document: Buffer, maxBytes: number): boolean {
  // A line of the journal is a row: a document of several lines is escaped like any other text.
  return document.length <= maxBytes && !document.includes(10) && isUtf8(document);
}

/** Logged parts of the bodies of a call to a provider. */
interface CallBodies {
  /** `own`: the same as the body of the request. */
  readonly sent: CallBody | 'own' | false | undefined;
  readonly answered: CallBody | false | undefined;
}

/** The last body sent to a provider for a request, and the provider's answer where it was translated. */
function callBodies(context: RequestContext, maxBytes: number): CallBodies {
  const call = context.get(providerCall);
  const cut = (body: CallBody | undefined) => body && cutBody(body.bytes, body.truncated, maxBytes);
  return { sent: call?.body === 'own' ? 'own' : cut(call?.body), answered: cut(call?.answerBody) };
}

/** JSON of a call, escaped for a JSON string: a row holds it as one. */
function callText({ request, answer }: ToldCall, { sent, answered }: CallBodies): string {
  const told = withMembers(request, sent === 'own' ? ',\\"own\\":true' : bodyMembers(sent));
  const response =
    answer === undefined ? '' : `,\\"response\\":${withMembers(answer, bodyMembers(answered))}`;
  return `{\\"request\\":${told}${response}}`;
}

function withMembers(object: string, members: string): string {
  return `${object.slice(0, -1)}${members}}`;
}

function bodyMembers(kept: CallBody | false | undefined): string {
  if (kept === undefined || kept === false || (kept.bytes.length === 0 && !kept.truncated)) return '';
  const isText = isUtf8(kept.bytes);
  const base64 = isText ? '' : ',\\"base64\\":true';
  const truncated = kept.truncated ? ',\\"truncated\\":true' : '';
  return `,\\"body\\":${quoteWithin(kept.bytes.toString(isText ? 'utf8' : 'base64'))}${base64}${truncated}`;
}

const empty = Buffer.alloc(0);

/**
 * At most `maxBytes` of a body, cut between characters and freed from gzip, br or deflate. A promise only when
 * something has to be decoded. An unknown or damaged encoding is kept unchanged.
 */
export function keepBody(
  body: Buffer = empty,
  options: { readonly encoding: string; readonly truncated: boolean; readonly maxBytes: number },
): CallBody | Promise<CallBody> {
  const { encoding, truncated, maxBytes } = options;
  const decoder = body.length > 0 && encoding !== '' ? decoderFor(encoding, body) : undefined;
  return decoder === undefined
    ? cutBody(body, truncated, maxBytes)
    : decode(decoder, body, truncated, maxBytes);
}

/** At most `maxBytes` of a body, cut between characters. */
function cutBody(body: Buffer, truncated: boolean, maxBytes: number): CallBody {
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
function decode(decoder: Transform, body: Buffer, truncated: boolean, maxBytes: number): Promise<CallBody> {
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

function duration(name: keyof RequestRow, ms: number): string {
  return ms < 0.0005 ? '' : `,"${name}":${milliseconds(ms)}`;
}

function list(name: keyof RequestRow, values: readonly string[]): string {
  return values.length === 0 ? '' : `,"${name}":${JSON.stringify(values.map((value) => clip(value, 128)))}`;
}
