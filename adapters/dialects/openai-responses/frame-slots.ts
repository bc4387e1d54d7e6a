import { asArray, asObject, asText, type JsonObject } from '../json-reading.ts';

/** Which events say the text of a slot. */
export type Channel = 'text' | 'reasoning' | 'arguments';

/** One place in an event where generated text stands. */
export interface FrameSlot {
  /** The same for every event that says, or repeats, the same text. */
  readonly key: string;
  readonly channel: Channel;
  readonly outputIndex: number;
  /** The object that holds the text, and under which name. */
  readonly holder: JsonObject;
  readonly member: string;
  /** The whole text so far, and not a piece of it. */
  readonly isWhole: boolean;
}

const deltas: Readonly<Record<string, Channel>> = {
  'response.output_text.delta': 'text',
  'response.refusal.delta': 'text',
  'response.reasoning_summary_text.delta': 'reasoning',
  'response.reasoning_text.delta': 'reasoning',
  'response.function_call_arguments.delta': 'arguments',
  'response.custom_tool_call_input.delta': 'arguments',
};

const wholes: Readonly<Record<string, readonly [Channel, string]>> = {
  'response.output_text.done': ['text', 'text'],
  'response.refusal.done': ['text', 'refusal'],
  'response.reasoning_summary_text.done': ['reasoning', 'text'],
  'response.reasoning_text.done': ['reasoning', 'text'],
  'response.function_call_arguments.done': ['arguments', 'arguments'],
  'response.custom_tool_call_input.done': ['arguments', 'input'],
};

/** Every place in an event of the stream where generated text stands. */
export function frameSlots(json: JsonObject): readonly FrameSlot[] {
  const type = asText(json.type) ?? '';
  const outputIndex = indexOf(json.output_index);
  const delta = deltas[type];
  if (delta !== undefined) return [eventSlot(json, delta, 'delta', false)];
  const whole = wholes[type];
  if (whole !== undefined) return [eventSlot(json, whole[0], whole[1], true)];
  if (type === 'response.content_part.done' || type === 'response.reasoning_summary_part.done') {
    const part = asObject(json.part) ?? {};
    return contentSlot(part, outputIndex, placeOf(json));
  }
  if (type === 'response.output_item.done') return itemSlots(asObject(json.item) ?? {}, outputIndex);
  const response = asObject(json.response);
  return response === undefined
    ? []
    : asArray(response.output).flatMap((item, i) => itemSlots(asObject(item) ?? {}, i));
}

/** The texts of an output item. */
function itemSlots(item: JsonObject, outputIndex: number): readonly FrameSlot[] {
  if (item.type === 'function_call' || item.type === 'custom_tool_call') {
    const member = item.type === 'function_call' ? 'arguments' : 'input';
    return slot(item, member, { key: `${outputIndex}`, channel: 'arguments', outputIndex });
  }
  const inContent = asArray(item.content).flatMap((part, i) =>
    contentSlot(asObject(part) ?? {}, outputIndex, `content:${i}`),
  );
  const inSummary = asArray(item.summary).flatMap((part, i) =>
    contentSlot(asObject(part) ?? {}, outputIndex, `summary:${i}`),
  );
  return [...inSummary, ...inContent];
}

function contentSlot(part: JsonObject, outputIndex: number, place: string): readonly FrameSlot[] {
  const isThought = part.type === 'summary_text' || part.type === 'reasoning_text';
  const member = part.type === 'refusal' ? 'refusal' : 'text';
  const channel = isThought ? 'reasoning' : 'text';
  return slot(part, member, { key: `${outputIndex}.${place}`, channel, outputIndex });
}

function slot(
  holder: JsonObject,
  member: string,
  place: Pick<FrameSlot, 'key' | 'channel' | 'outputIndex'>,
): readonly FrameSlot[] {
  return typeof holder[member] === 'string' ? [{ ...place, holder, member, isWhole: true }] : [];
}

function eventSlot(json: JsonObject, channel: Channel, member: string, isWhole: boolean): FrameSlot {
  const outputIndex = indexOf(json.output_index);
  const key = channel === 'arguments' ? `${outputIndex}` : `${outputIndex}.${placeOf(json)}`;
  return { key, channel, outputIndex, holder: json, member, isWhole };
}

/** The key of the text part that an event is about. */
export function textKeyOf(json: JsonObject): string {
  return `${indexOf(json.output_index)}.${placeOf(json)}`;
}

function placeOf(json: JsonObject): string {
  return json.summary_index === undefined
    ? `content:${indexOf(json.content_index)}`
    : `summary:${indexOf(json.summary_index)}`;
}

function indexOf(value: unknown): number {
  return typeof value === 'number' ? value : 0;
}

/** What a slot says. */
export function slotText({ holder, member }: FrameSlot): string {
  const text = holder[member];
  return typeof text === 'string' ? text : '';
}

/** What a slot says beyond what was said of it: all of it when it says something else. */
export function newText(place: FrameSlot, said: string): string {
  const text = slotText(place);
  if (!place.isWhole) return text;
  return text.startsWith(said) ? text.slice(said.length) : text;
}
