import type { StreamEvent } from '../../../core/dialects/stream-event.ts';
import { stringifyExact } from '../exact-json.ts';
import { asArray, asObject, asText, type JsonObject } from '../json-reading.ts';
import { candidateIndex, partsOf } from './join-calls.ts';
import { memberObject } from './member.ts';

/** Members of a candidate that repeat its text or count places in it. */
export const aboutTheText = [
  ...['logprobsResult', 'logprobs_result', 'avgLogprobs', 'avg_logprobs'],
  ...['groundingMetadata', 'grounding_metadata', 'citationMetadata', 'citation_metadata'],
];

/** The events that carry text. */
export type TextEvent = Extract<StreamEvent, { text: string }>;

/** One part of an answer that holds generated text. */
export interface FrameSlot {
  readonly event: TextEvent;
  readonly candidate: JsonObject;
  readonly part: JsonObject;
}

/** Numbers the calls of each candidate of a stream. */
export class CallNumbers {
  private readonly next = new Map<number, number>();

  take(choice: number): number {
    const number = this.next.get(choice) ?? 0;
    this.next.set(choice, number + 1);
    return number;
  }
}

/** Every part of an object of the stream that holds generated text, arguments of calls included. */
export function frameSlots(json: JsonObject, numbers: CallNumbers): readonly FrameSlot[] {
  const slots: FrameSlot[] = [];
  asArray(json.candidates).forEach((value, position) => {
    const candidate = asObject(value) ?? {};
    const choice = candidateIndex(candidate, position);
    for (const part of partsOf(candidate)) {
      const text = asText(part.text);
      if (text !== undefined) {
        const type = part.thought === true ? 'reasoning-delta' : 'text-delta';
        slots.push({ event: { type, choice, text }, candidate, part });
        continue;
      }
      const call = memberObject(part, 'functionCall');
      if (call !== undefined && asText(call.name) !== undefined)
        slots.push({ event: callEvent(call, choice, numbers.take(choice)), candidate, part });
    }
  });
  return slots;
}

/** The key of the texts that belong together. */
export function channelOf(event: TextEvent): string {
  return `${event.type}:${event.choice}:${event.type === 'tool-arguments-delta' ? event.call : ''}`;
}

function callEvent(call: JsonObject, choice: number, number: number): TextEvent {
  const id = asText(call.id);
  const args = asObject(call.args) ?? {};
  return {
    ...{ type: 'tool-arguments-delta', choice, call: number },
    ...(id === undefined ? {} : { id }),
    name: asText(call.name) ?? '',
    text: typeof call.args === 'string' ? call.args : stringifyExact(args),
  };
}
