import type { StreamEvent } from '../../../core/dialects/stream-event.ts';
import { asArray, asObject, asText, type JsonObject } from '../json-reading.ts';
import { choiceIndex } from './stream-reader.ts';

/** The events that carry text. */
export type TextEvent = Extract<StreamEvent, { text: string }>;

/** One place in a chunk where text stands. */
export interface TextSlot {
  readonly event: TextEvent;
  /** The object that holds the text, and under which name. */
  readonly holder: JsonObject;
  readonly member: string;
  /** Takes the text out of the chunk. */
  remove(): void;
}

/** Every place in a chunk of a chat or completions stream where text stands, in the order in which it is said. */
export function textSlots(json: JsonObject): readonly TextSlot[] {
  return asArray(json.choices).flatMap((value, position) => {
    const choice = asObject(value);
    return choice === undefined ? [] : choiceSlots(choice, choiceIndex(choice, position));
  });
}

/** Those of one choice. */
export function choiceSlots(choice: JsonObject, index: number): readonly TextSlot[] {
  const slots: TextSlot[] = [];
  const delta = asObject(choice.delta);
  const add = (type: 'text-delta' | 'reasoning-delta', holder: JsonObject, member: string): void => {
    const text = asText(holder[member]);
    if (text === undefined) return;
    const remove = (): void => {
      // A delta may lack any member; a part of a content array needs its text.
      if (holder === delta) delete holder[member];
      else holder[member] = '';
    };
    slots.push({ event: { type, choice: index, text }, holder, member, remove });
  };
  add('text-delta', choice, 'text');
  if (delta === undefined) return slots;
  add('reasoning-delta', delta, 'reasoning_content');
  // Some hosts say the same under both names.
  if (delta.reasoning !== delta.reasoning_content) add('reasoning-delta', delta, 'reasoning');
  add('text-delta', delta, 'content');
  for (const part of asArray(delta.content).map(asObject)) {
    if (part === undefined) continue;
    add('text-delta', part, 'text');
    for (const thought of asArray(part.thinking).map(asObject)) {
      if (thought !== undefined) add('reasoning-delta', thought, 'text');
    }
  }
  add('text-delta', delta, 'refusal');
  slots.push(...callSlots(delta, index));
  return slots;
}

function callSlots(delta: JsonObject, choice: number): readonly TextSlot[] {
  const slots: TextSlot[] = [];
  const calls = Array.isArray(delta.tool_calls) ? (delta.tool_calls as unknown[]) : [];
  calls.forEach((value, position) => {
    const call = asObject(value);
    const definition = asObject(call?.function) ?? asObject(call?.custom);
    if (call === undefined || definition === undefined) return;
    const member = call.function === undefined || call.function === null ? 'input' : 'arguments';
    const index = typeof call.index === 'number' ? call.index : position;
    slots.push({
      event: callEvent(choice, index, { id: call.id, name: definition.name, text: definition[member] }),
      holder: definition,
      member,
      remove: () => calls.splice(calls.indexOf(value), 1),
    });
  });
  const legacy = asObject(delta.function_call);
  if (legacy !== undefined) {
    slots.push({
      event: callEvent(choice, 0, { name: legacy.name, text: legacy.arguments }),
      holder: legacy,
      member: 'arguments',
      remove: () => delete delta.function_call,
    });
  }
  return slots;
}

function callEvent(
  choice: number,
  call: number,
  said: { id?: unknown; name?: unknown; text: unknown },
): TextEvent {
  const id = asText(said.id);
  const name = asText(said.name);
  return {
    type: 'tool-arguments-delta',
    choice,
    call,
    ...(id === undefined ? {} : { id }),
    ...(name === undefined ? {} : { name }),
    text: asText(said.text) ?? '',
  };
}
