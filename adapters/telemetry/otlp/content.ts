import type { ConversationText } from '../../../core/dialects/dialect.ts';
import { isEventStreamType } from '../../../core/dialects/stream-event.ts';
import type { Outcome, RequestContext } from '../../../core/pipeline/context.ts';
import type { Clock } from '../../../core/ports/clock.ts';
import type { Redaction } from '../../../core/redaction/redaction.ts';
import { answerTexts } from './answer-texts.ts';
import type { SpanContent } from './settled-request.ts';

/** Most characters of one attribute; a longer list of messages is cut at whole messages, the last ones stay. */
const maxLength = 32_768;

/** Bytes of a request of which texts are told; to read a longer one again holds up all requests. */
const maxReadBytes = 1_048_576;

/**
 * What was asked and answered, as the conventions have it: `gen_ai.input.messages` and `gen_ai.output.messages`, lists of
 * messages as JSON texts. Bodies that are no conversation, or that nobody kept, add nothing.
 */
export function spanContent(context: RequestContext, outcome: Outcome): SpanContent {
  return {
    inputMessages: bounded(messagesOf(askedTexts(context, outcome))),
    outputMessages: outputMessages(answerBody(outcome), context, outcome),
    errorMessage: outcome.error?.message ?? '',
  };
}

/** The same without what `redaction` takes out, with turns for requests when that takes long. */
export async function redactedContent(
  context: RequestContext,
  outcome: Outcome,
  redaction: Redaction,
  clock: Pick<Clock, 'monotonic'>,
): Promise<SpanContent> {
  const whole = { isEventStream: false, isTruncated: false };
  const texts = askedTexts(context, outcome);
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

/** The text there, or what stands in the place of all that it was in; empty when its name was taken out. */
function textAt(document: unknown, path: ConversationText['path']): string {
  let value = document;
  for (const step of path) {
    if (typeof value !== 'object' || value === null) break;
    value = Object.hasOwn(value, step) ? (value as Record<string | number, unknown>)[step] : '';
  }
  return typeof value === 'string' ? value : '';
}

function askedTexts(context: RequestContext, outcome: Outcome): readonly ConversationText[] {
  const { requestBody } = outcome;
  if (requestBody === undefined || requestBody.length > maxReadBytes) return [];
  if (!context.endpoint.modelled) return [];
  try {
    return context.conversation.texts;
  } catch {
    // A body that its dialect cannot read has been refused, and is no conversation.
    return [];
  }
}

/** Of an answer that is whole, readable and no error; else empty. */
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

/** Texts that stand in one message of the request are parts of one message. */
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

/** The last messages that fit, as JSON; of a single one that does not, its beginning. */
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
