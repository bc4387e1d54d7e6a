import { isObject } from '@/lib/json';
import { argumentsOf, type Json, listOf, type Part, partsOf, textIn, type Turn } from '@/pages/logs/blocks';

type Words = 'text' | 'thought' | 'refusal';
type Growing =
  { readonly kind: Words; text: string } | { readonly kind: 'call'; id: string; name: string; text: string };

/** What a stream has told so far: the parts of each of its answers, in the order in which they began. */
class Gathered {
  readonly #answers = new Map<string, Map<string, Growing | Part>>();

  #parts(answer: string): Map<string, Growing | Part> {
    const parts = this.#answers.get(answer) ?? new Map<string, Growing | Part>();
    this.#answers.set(answer, parts);
    return parts;
  }

  say(answer: string, key: string, kind: Words, more: unknown): void {
    if (typeof more !== 'string' || more === '') return;
    const parts = this.#parts(answer);
    const own = parts.get(`${kind}:${key}`);
    if (own?.kind === kind) parts.set(`${kind}:${key}`, { kind, text: own.text + more });
    else parts.set(`${kind}:${key}`, { kind, text: more });
  }

  call(
    answer: string,
    key: string,
    { id, name, more }: { readonly id?: unknown; readonly name?: unknown; readonly more?: unknown },
  ): void {
    const parts = this.#parts(answer);
    const before = parts.get(`call:${key}`);
    const own = before?.kind === 'call' ? before : { kind: 'call' as const, id: '', name: '', text: '' };
    parts.set(`call:${key}`, {
      kind: 'call',
      id: textIn(id) || own.id,
      name: textIn(name) || own.name,
      text: own.text + (typeof more === 'string' ? more : ''),
    });
  }

  /** A part that comes whole. */
  add(answer: string, part: Part): void {
    const parts = this.#parts(answer);
    parts.set(`whole:${parts.size}`, part);
  }

  get turns(): readonly Turn[] {
    return [...this.#answers.values()].map((parts) => ({
      role: 'assistant',
      parts: [...parts.values()].map((part) =>
        part.kind === 'call' ? { ...part, text: argumentsOf(part.text || '{}') } : part,
      ),
    }));
  }
}

/** The answers of the events of a stream of any wire. */
export function streamedTurns(events: readonly Json[]): readonly Turn[] {
  const gathered = new Gathered();
  for (const event of events) {
    for (const choice of listOf(event['choices'])) if (isObject(choice)) gatherChoice(gathered, choice);
    for (const one of listOf(event['candidates'])) if (isObject(one)) gatherCandidate(gathered, one);
    if (typeof event['type'] === 'string') gatherTyped(gathered, event['type'], event);
    else gatherConverse(gathered, event);
  }
  return gathered.turns;
}

/** Chat completions, and completions. */
function gatherChoice(gathered: Gathered, choice: Json): void {
  const answer = textIn(choice['index']);
  gathered.say(answer, '', 'text', choice['text']);
  const { delta } = choice;
  if (!isObject(delta)) return;
  gathered.say(answer, '', 'thought', delta['reasoning_content'] ?? delta['reasoning']);
  if (delta['reasoning_content'] === undefined && delta['reasoning'] === undefined)
    for (const block of listOf(delta['content_blocks']))
      if (isObject(block) && isObject(block['delta']))
        gathered.say(answer, '', 'thought', block['delta']['thinking']);
  gathered.say(answer, '', 'text', delta['content']);
  gathered.say(answer, '', 'refusal', delta['refusal']);
  for (const call of listOf(delta['tool_calls'])) {
    if (!isObject(call) || !isObject(call['function'])) continue;
    const { name, arguments: more } = call['function'];
    gathered.call(answer, textIn(call['index']), { id: call['id'], name, more });
  }
}

/** `streamGenerateContent`: parts of texts go on, calls and images come whole. */
function gatherCandidate(gathered: Gathered, candidate: Json): void {
  if (!isObject(candidate['content'])) return;
  const answer = textIn(candidate['index']) || '0';
  for (const part of partsOf(candidate['content']['parts'])) {
    if (part.kind === 'text' || part.kind === 'thought') gathered.say(answer, '', part.kind, part.text);
    else gathered.add(answer, part);
  }
}

/** Messages and responses, whose events say what they are. */
function gatherTyped(gathered: Gathered, type: string, event: Json): void {
  const key = textIn(event['index'] ?? event['output_index']);
  const { delta, item, content_block: block } = event;
  if (type === 'content_block_start' && isObject(block)) {
    if (/(?:^|_)tool_use$/.test(textIn(block['type'])))
      gathered.call('0', key, { id: block['id'], name: block['name'] });
    else for (const part of partsOf(block)) if (part.kind === 'result') gathered.add('0', part);
  }
  if (type === 'content_block_delta' && isObject(delta)) {
    gathered.say('0', key, 'text', delta['text']);
    gathered.say('0', key, 'thought', delta['thinking']);
    if (delta['type'] === 'input_json_delta') gathered.call('0', key, { more: delta['partial_json'] });
  }
  if (type === 'response.output_text.delta') gathered.say('0', key, 'text', delta);
  if (type === 'response.refusal.delta') gathered.say('0', key, 'refusal', delta);
  if (type === 'response.reasoning_summary_text.delta' || type === 'response.reasoning_text.delta')
    gathered.say('0', key, 'thought', delta);
  if (type === 'response.function_call_arguments.delta' || type === 'response.custom_tool_call_input.delta')
    gathered.call('0', key, { more: delta });
  if (type === 'response.output_item.added' && isObject(item) && /_call$/.test(textIn(item['type'])))
    gathered.call('0', key, { id: item['call_id'] ?? item['id'], name: item['name'] ?? item['type'] });
}

/** `ConverseStream`: an event has one member, under its name. */
function gatherConverse(gathered: Gathered, event: Json): void {
  const { contentBlockStart: start, contentBlockDelta: more } = event;
  if (isObject(start) && isObject(start['start']) && isObject(start['start']['toolUse'])) {
    const { toolUseId: id, name } = start['start']['toolUse'];
    gathered.call('0', textIn(start['contentBlockIndex']), { id, name });
  }
  if (!isObject(more) || !isObject(more['delta'])) return;
  const key = textIn(more['contentBlockIndex']);
  const { text, toolUse: use, reasoningContent: thought } = more['delta'];
  gathered.say('0', key, 'text', text);
  if (isObject(use)) gathered.call('0', key, { more: use['input'] });
  if (isObject(thought)) gathered.say('0', key, 'thought', thought['text']);
}

/** Bytes of a frame before its headers: two lengths and a checksum. Its end has another checksum. */
const preludeBytes = 12;
const checksumBytes = 4;
const stringHeader = 7;

/**
 * The events of an `application/vnd.amazon.eventstream` body, each as an object with one member, named after its type;
 * empty for any other bytes. A frame that was cut off is left out.
 */
export function framesOf(bytes: Uint8Array): readonly Json[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const events: Json[] = [];
  for (let at = 0; at + preludeBytes <= bytes.length;) {
    const length = view.getUint32(at);
    const headers = at + preludeBytes;
    const payload = headers + view.getUint32(at + 4);
    const end = at + length - checksumBytes;
    if (payload > end || at + length > bytes.length) break;
    const type = eventType(view, headers, payload);
    try {
      const value: unknown = JSON.parse(new TextDecoder().decode(bytes.subarray(payload, end)));
      if (type !== undefined) events.push({ [type]: value });
    } catch {
      return events;
    }
    at += length;
  }
  return events;
}

/** The header `:event-type` or `:exception-type`; undefined where headers of other types come before it. */
function eventType(view: DataView, from: number, to: number): string | undefined {
  const text = (at: number, length: number): string =>
    new TextDecoder().decode(new Uint8Array(view.buffer, view.byteOffset + at, length));
  for (let at = from; at + 4 <= to;) {
    const valueAt = at + 1 + view.getUint8(at) + 3;
    if (valueAt > to || view.getUint8(valueAt - 3) !== stringHeader) return undefined;
    const name = text(at + 1, view.getUint8(at));
    const length = view.getUint16(valueAt - 2);
    if (valueAt + length > to) return undefined;
    if (name === ':event-type' || name === ':exception-type') return text(valueAt, length);
    at = valueAt + length;
  }
  return undefined;
}
