import type { ChatAnswer } from '../../../core/dialects/canonical/chat-answer.ts';
import type { AnswerContext } from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatPart, Extras } from '../../../core/dialects/canonical/chat-part.ts';
import { stringifyExact } from '../exact-json.ts';
import { asObject, type JsonObject } from '../json-reading.ts';
import { encodeAnswerPart } from './encode-block.ts';
import { encodeAnthropicUsage } from './encode-usage.ts';
import { dialectName } from './own-dialect.ts';
import { stopReasonOf } from './stop-reason.ts';

/** A complete answer as a message. Of several choices the first is told: the wire has one. */
export function encodeAnswer(answer: ChatAnswer, context: AnswerContext): Buffer {
  const choice = answer.choices[0];
  const parts = choice?.parts ?? [];
  const content: JsonObject[] = [];
  const omitted: ChatPart[] = [];
  for (const part of parts) {
    const block = encodeAnswerPart(part);
    if (block === undefined) omitted.push(part);
    else content.push(block);
  }
  const { usage: details, ...members } = answer.extras?.[dialectName] ?? {};
  const finish = choice?.finish ?? { reason: 'unknown', raw: '' };
  const message: JsonObject = {
    ...members,
    id: answer.id === '' ? context.newId('msg_') : answer.id,
    type: 'message',
    role: 'assistant',
    model: answer.model === '' ? context.request.model : answer.model,
    content,
    stop_reason: stopReasonOf(finish, {
      hasCall: parts.some(({ type }) => type === 'tool-call'),
      hasRefusal: parts.some(({ type }) => type === 'refusal'),
    }),
    stop_sequence: finish.stopSequence ?? null,
    usage: encodeAnthropicUsage(answer.usage, asObject(details), answer.serviceTier),
  };
  const fields = context.strict ? undefined : providerFields(omitted, answer.extras, choice?.extras);
  if (fields !== undefined) message.provider_fields = fields;
  return Buffer.from(stringifyExact(message));
}

/**
 * What a message cannot hold, for clients that want more than the wire documents: parts that it has no block for under
 * `content`, and what other wires know of the answer under their names. Undefined when there is none.
 */
export function providerFields(
  omitted: readonly ChatPart[],
  ...extras: readonly (Extras | undefined)[]
): JsonObject | undefined {
  const fields: JsonObject = {};
  if (omitted.length > 0) fields.content = omitted;
  for (const [dialect, members] of extras.flatMap((one) => Object.entries(one ?? {}))) {
    if (dialect !== dialectName) fields[dialect] = { ...asObject(fields[dialect]), ...members };
  }
  return Object.keys(fields).length === 0 ? undefined : fields;
}
