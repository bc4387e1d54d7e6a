import type { ConversationText } from '../../../core/dialects/dialect.ts';
import type { Outcome, RequestContext } from '../../../core/pipeline/context.ts';
import { answerTexts } from './answer-texts.ts';
import type { Attributes } from './attributes.ts';

/** Most characters of one attribute; a longer list of messages is cut at whole messages, the last ones stay. */
const maxLength = 32_768;

/**
 * What was asked and answered, as the conventions have it: `gen_ai.input.messages` and `gen_ai.output.messages`, lists of
 * messages as JSON texts. Bodies that are no conversation, or that nobody kept, add nothing.
 */
export function addContent(list: Attributes, context: RequestContext, outcome: Outcome): void {
  if (outcome.requestBody !== undefined && context.endpoint.modelled)
    list.string('gen_ai.input.messages', bounded(inputMessages(context)));
  const { responseBody, responseTruncated, responseContentEncoding: encoding } = outcome;
  if (responseBody === undefined || responseTruncated || encoding !== '' || outcome.status >= 400) return;
  const text = answerTexts(responseBody, outcome.responseContentType);
  if (text === '') return;
  const [reason = ''] = context.facts.finishReason.split(',');
  const message = { ...messageOf('assistant', [text]), ...(reason !== '' && { finish_reason: reason }) };
  list.string('gen_ai.output.messages', bounded([message]));
}

interface Message {
  readonly role: string;
  readonly parts: readonly { readonly type: 'text'; readonly content: string }[];
}

function messageOf(role: string, texts: readonly string[]): Message {
  return { role, parts: texts.map((content) => ({ type: 'text', content })) };
}

/** Texts that stand in one message of the request are parts of one message. */
function inputMessages(context: RequestContext): Message[] {
  let texts: readonly ConversationText[];
  try {
    ({ texts } = context.conversation);
  } catch {
    // A body that its dialect cannot read has been refused, and is no conversation.
    return [];
  }
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
