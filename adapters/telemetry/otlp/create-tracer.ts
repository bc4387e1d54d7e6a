import { randomUUID } from 'node:crypto';
import { keepsBodies, logRedaction, matchedRoute } from '../../../core/pipeline/keys.ts';
import type { Clock } from '../../../core/ports/clock.ts';
import type { Log } from '../../../core/ports/log.ts';
import type { Metrics } from '../../../core/ports/metrics.ts';
import type { Outcome, RequestContext, RequestTracer } from '../../../core/pipeline/context.ts';
import { isSampled, type OtlpSettings, spanContextOf } from '../../../core/base/trace-context.ts';
import type { Directory } from '../../../core/ports/directory.ts';
import { Collector, SpanExporter } from './span-exporter.ts';
import { requestSpans, type SpanContent } from './request-spans.ts';
import type { ConversationText } from '../../../core/dialects/dialect.ts';
import { isEventStreamType } from '../../../core/dialects/stream-event.ts';
import type { Redaction } from '../../../core/redaction/redaction.ts';

/**
 * Upper bound of characters in one attribute; a longer list of messages is cut at message boundaries and keeps the last
 * ones.
 */
const maxLength = 32_768;

/** Upper bound of a request body for text attributes, in bytes; parsing a longer one again would delay all requests. */
const maxReadBytes = 1_048_576;

/**
 * Request and answer in the form of the conventions: `gen_ai.input.messages` and `gen_ai.output.messages`, lists of
 * messages as JSON texts. Bodies that are not conversations, or that were not kept, add nothing.
 */
function spanContent(context: RequestContext, outcome: Outcome): SpanContent {
  return {
    inputMessages: bounded(messagesOf(requestTexts(context, outcome))),
    outputMessages: outputMessages(answerBody(outcome), context, outcome),
    errorMessage: outcome.error?.message ?? '',
  };
}

/** Same with `redaction` applied, yielding to other requests when that takes long. */
async function redactedContent(
  context: RequestContext,
  outcome: Outcome,
  redaction: Redaction,
  clock: Pick<Clock, 'monotonic'>,
): Promise<SpanContent> {
  const whole = { isEventStream: false, isTruncated: false };
  const texts = requestTexts(context, outcome);
  let asked: unknown;
  if (texts.length > 0)
    asked = JSON.parse(await redaction.body(String(outcome.requestBody), whole, clock)) as unknown;
  const isEventStream = isEventStreamType(outcome.responseContentType);
  const answer = await redaction.body(answerBody(outcome), { ...whole, isEventStream }, clock);
  return {
    inputMessages: bounded(messagesOf(texts.map((one) => ({ ...one, text: textAt(asked, one.path) })))),
    outputMessages: outputMessages(answer, context, outcome),
    errorMessage: redaction.text(outcome.error?.message ?? ''),
  };
}

/** The text at the path, or the replacement of an enclosing value; empty when its name was removed. */
function textAt(document: unknown, path: ConversationText['path']): string {
  let value = document;
  for (const step of path) {
    if (typeof value !== 'object' || value === null) break;
    value = Object.hasOwn(value, step) ? (value as Record<string | number, unknown>)[step] : '';
  }
  return typeof value === 'string' ? value : '';
}

function requestTexts(context: RequestContext, outcome: Outcome): readonly ConversationText[] {
  const { requestBody } = outcome;
  if (requestBody === undefined || requestBody.length > maxReadBytes) return [];
  if (!context.endpoint.modelled) return [];
  try {
    return context.conversation.texts;
  } catch {
    // A body that its dialect cannot read was refused, and is not a conversation.
    return [];
  }
}

/** Body of a complete, readable answer without error; else empty. */
function answerBody(outcome: Outcome): string {
  const { responseBody, responseTruncated, responseContentEncoding: encoding } = outcome;
  if (responseBody === undefined || responseTruncated || encoding !== '' || outcome.status >= 400) return '';
  return responseBody.toString('utf8');
}

function outputMessages(body: string, { facts }: RequestContext, outcome: Outcome): string {
  const text = answerTexts(body, isEventStreamType(outcome.responseContentType));
  if (text === '') return '';
  const [reason = ''] = facts.finishReason.split(',');
  return bounded([{ ...messageOf('assistant', [text]), ...(reason !== '' && { finish_reason: reason }) }]);
}

interface Message {
  readonly role: string;
  readonly parts: readonly { readonly type: 'text'; readonly content: string }[];
}

function messageOf(role: string, texts: readonly string[]): Message {
  return { role, parts: texts.map((content) => ({ type: 'text', content })) };
}

/** Texts of one request message become parts of one message. */
function messagesOf(texts: readonly ConversationText[]): Message[] {
  const messages: { readonly place: string; readonly role: string; readonly texts: string[] }[] = [];
  for (const { role, text, path } of texts) {
    const place = path.slice(0, 2).join('/');
    const last = messages.at(-1);
    if (last?.place === place && last.role === role) last.texts.push(text);
    else messages.push({ place, role, texts: [text] });
  }
  return messages.map((one) => messageOf(one.role, one.texts));
}

/** The last messages that fit, as JSON; for a single one that does not fit, its start. */
function bounded(messages: readonly Message[]): string {
  const kept: string[] = [];
  let length = 2;
  for (const message of messages.toReversed()) {
    const text = JSON.stringify(message);
    if (length + text.length + 1 > maxLength) {
      if (kept.length === 0) kept.push(JSON.stringify(cut(message)));
      break;
    }
    kept.unshift(text);
    length += text.length + 1;
  }
  return kept.length === 0 ? '' : `[${kept.join(',')}]`;
}

function cut({ role, parts }: Message): Message {
  const text = parts.map(({ content }) => content).join('\n');
  return messageOf(role, [text.slice(0, maxLength / 8)]);
}

/** State that tracers share. */
interface TracerParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Settings of workspaces for the bodies of their requests. */
  readonly directory: Pick<Directory, 'settingsIn'>;
  /** At least 0 and below 1; default `Math.random`. */
  readonly random?: () => number;
}

/** Upper bound of concurrent body redactions; further spans have no bodies. */
const maxRedactions = 64;
/** `service.instance.id` of this process. */
const instance = randomUUID();

/**
 * Sends spans to the collector of the settings: one per recorded provider request, and one per attempt. Requests to the
 * administration API are excluded: a gateway that sends spans to itself would never finish.
 */
export function createOtlpTracer(settings: OtlpSettings, parts: TracerParts): RequestTracer {
  const { clock, log, metrics, directory, random = Math.random } = parts;
  const collector = new Collector(settings, clock, instance);
  const exporter = new SpanExporter({
    queue: settings.queue,
    clock,
    log,
    metrics,
    random,
    post: (spans) => collector.post(spans),
  });
  const redactions = new Set<Promise<void>>();
  return {
    settled(context, outcome, acceptedAt) {
      if (context.get(matchedRoute) !== undefined) return;
      const ids = spanContextOf(context.facts, context.id);
      if (!isSampled(context.facts, ids.traceId, settings)) return;
      const redaction = context.get(logRedaction);
      const add = (content?: SpanContent): void =>
        exporter.add(requestSpans({ context, outcome, acceptedAt, ids, content, redaction }));
      const failed = (error: unknown): void =>
        log.error('A span could not be made', { request_id: context.id, error });
      try {
        if (!settings.content || !keepsBodies(directory, context, outcome)) return add();
        if (redaction === undefined) return add(spanContent(context, outcome));
        if (redactions.size >= maxRedactions) return add();
        const work = redactedContent(context, outcome, redaction, clock).then(add).catch(failed);
        redactions.add(work);
        void work.then(() => redactions.delete(work));
      } catch (error) {
        failed(error);
      }
    },
    async close(deadlineMs) {
      await Promise.all(redactions);
      await exporter.close(deadlineMs);
      await collector.close();
    },
  };
}

/**
 * The text of an answer, whole or as an event stream, of any client wire: that of the first choice. Empty when there is
 * none.
 */
export function answerTexts(body: string, isEventStream: boolean): string {
  if (!isEventStream) return wholeText(parseJson(body));
  let text = '';
  for (const line of body.split(/\r?\n/)) {
    if (line.startsWith('data:')) text += pieceText(parseJson(line.slice(5)));
  }
  return text;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function wholeText(answer: unknown): string {
  const choice = first(member(answer, 'choices')) ?? first(member(answer, 'candidates'));
  if (choice !== undefined)
    return (
      textsOf(member(member(choice, 'message'), 'content')) ||
      textsOf(member(member(choice, 'content'), 'parts')) ||
      textsOf(member(choice, 'text'))
    );
  const output = member(answer, 'output');
  if (Array.isArray(output)) return output.map((item) => textsOf(member(item, 'content'))).join('');
  return textsOf(member(answer, 'content'));
}

function pieceText(event: unknown): string {
  const choice = first(member(event, 'choices'));
  if (choice !== undefined)
    return textsOf(member(member(choice, 'delta'), 'content')) || textsOf(member(choice, 'text'));
  const candidate = first(member(event, 'candidates'));
  if (candidate !== undefined) return textsOf(member(member(candidate, 'content'), 'parts'));
  const type = member(event, 'type');
  if (type === 'content_block_delta') return textsOf(member(member(event, 'delta'), 'text'));
  return type === 'response.output_text.delta' ? textsOf(member(event, 'delta')) : '';
}

/** A text, or the texts of a list of parts. */
function textsOf(value: unknown): string {
  if (typeof value === 'string') return value;
  if (!Array.isArray(value)) return '';
  return value
    .map((part) => member(part, 'text'))
    .filter((text) => typeof text === 'string')
    .join('');
}

function first(value: unknown): unknown {
  return Array.isArray(value) ? (value as unknown[])[0] : undefined;
}

function member(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
  return (value as Record<string, unknown>)[name];
}
