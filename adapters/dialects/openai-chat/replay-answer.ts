import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import type { StreamFrame } from '../../../core/dialects/stream-event.ts';
import type { Usage } from '../../../core/dialects/usage.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { readSseFrame, writeSseFrame } from '../../../core/base/sse.ts';
import {
  asArray,
  asBuffer,
  asObject,
  type JsonObject,
  parseExactObject,
  stringifyExact,
} from '../json-reading.ts';
import { choiceIndex, openAiUsage } from '../openai-shapes.ts';

/** One answer of the chunks of a stream, and back. */
export const wholeAnswer = { assemble: assembleAnswer, disassemble: disassembleAnswer };

/** Members whose text arrives in pieces. Other members are sent whole; the last value counts. */
const inPieces: ReadonlySet<string> = new Set([
  'content',
  'refusal',
  'reasoning_content',
  'reasoning',
  'text',
  'arguments',
  'input',
  'transcript',
  'data',
]);

/**
 * Merges a delta into the earlier ones: texts are joined, tool calls matched by index, other arrays appended, objects
 * merged, and anything else replaced. Null is ignored.
 */
function mergeDelta(target: JsonObject, delta: JsonObject): void {
  for (const [member, value] of Object.entries(delta)) {
    if (member === '__proto__') continue;
    target[member] = mergeValue(member, target[member], value);
  }
}

function mergeValue(member: string, before: unknown, value: unknown): unknown {
  if (value === null || value === undefined) return before ?? null;
  if (Array.isArray(value)) return mergeArray(member, before, value);
  if (typeof value === 'string') {
    if (Array.isArray(before)) return value === '' ? before : [...(before as unknown[]), textPart(value)];
    if (typeof before !== 'string') return value;
    return inPieces.has(member) ? before + value : value || before;
  }
  const members = asObject(value);
  if (members === undefined) return value;
  const target = asObject(before) ?? {};
  mergeDelta(target, members);
  return target;
}

function mergeArray(member: string, before: unknown, value: readonly unknown[]): unknown {
  const list: unknown[] = Array.isArray(before) ? before : [];
  // A host may send plain text first and parts later.
  if (typeof before === 'string' && before !== '') list.push(textPart(before));
  if (member !== 'tool_calls') {
    list.push(...value);
    return list;
  }
  value.forEach((item, position) => {
    const call = asObject(item);
    if (call === undefined) return;
    const known = list.map(asObject);
    // A host that omits the index sends each call whole, under its id.
    const byId = typeof call.index !== 'number' && typeof call.id === 'string';
    const index = typeof call.index === 'number' ? call.index : byId ? list.length : position;
    const match = known.find((candidate) => (byId ? candidate?.id === call.id : candidate?.index === index));
    if (match === undefined) list.push({ index });
    mergeDelta(match ?? (list.at(-1) as JsonObject), call);
  });
  return list;
}

function textPart(text: string): JsonObject {
  return { type: 'text', text };
}

/** Members of a chunk that appear once in an answer; the others (citations, filter results) are copied with them. */
const envelopeMembers = ['id', 'object', 'created', 'model', 'system_fingerprint', 'service_tier'] as const;

/**
 * The complete answer assembled from the frames of a stream. Throws `upstream_invalid` for a frame with content that
 * cannot be read: an answer that was only partly read must not be judged as a whole. `usage` is inserted when the
 * frames carry none.
 */
function assembleAnswer(endpoint: EndpointId, frames: readonly StreamFrame[], usage?: Usage): Uint8Array {
  const answer: JsonObject = {};
  const choices = new Map<number, JsonObject>();
  for (const frame of frames) {
    const json = chunkOf(frame);
    if (json === undefined) continue;
    const { choices: pieces, ...members } = json;
    // Padding of the single chunk, against guessing its text by its length.
    delete members.obfuscation;
    for (const [member, value] of Object.entries(members)) {
      if (value === null || value === '') answer[member] ??= value;
      else if (member !== '__proto__') answer[member] = value;
    }
    asArray(pieces).forEach((value, position) => {
      const piece = asObject(value);
      if (piece === undefined) return;
      const index = choiceIndex(piece, position);
      const choice = choices.get(index) ?? { index };
      choices.set(index, choice);
      mergeDelta(choice, piece);
    });
  }
  const inOrder = [...choices].sort(([left], [right]) => left - right).map(([, choice]) => choice);
  const isChat = endpoint !== 'completions';
  answer.object = isChat ? 'chat.completion' : 'text_completion';
  answer.choices = isChat ? inOrder.map(chatChoice) : inOrder;
  if (usage !== undefined && asObject(answer.usage) === undefined) answer.usage = openAiUsage.encode(usage);
  return Buffer.from(stringifyExact(answer));
}

/**
 * A complete answer as the frames of a stream: per choice one with its content and one with its finish reason, then the
 * usage, then the end marker. Throws `upstream_invalid` when the answer is not a JSON object.
 */
function disassembleAnswer(endpoint: EndpointId, answer: Uint8Array): readonly Uint8Array[] {
  const json = parseExactObject(asBuffer(answer).toString('utf8'));
  if (json === undefined) {
    throw new GatewayError(
      'upstream_invalid',
      'The answer is no JSON object and cannot be replayed as a stream.',
    );
  }
  if (!Array.isArray(json.choices)) return [writeSseFrame(stringifyExact(json))];
  const { choices, usage, ...members } = json;
  const isChat = endpoint !== 'completions';
  if (isChat) members.object = 'chat.completion.chunk';
  const envelope: JsonObject = {};
  for (const member of envelopeMembers) if (member in members) envelope[member] = members[member];

  const chunks: JsonObject[] = [];
  asArray(choices).forEach((value, position) => {
    const choice = asObject(value);
    if (choice === undefined) return;
    const index = choiceIndex(choice, position);
    const said = isChat ? chatDelta(choice) : choice;
    const first = chunks.length === 0 ? members : envelope;
    chunks.push({ ...first, choices: [{ ...said, index, finish_reason: null }] });
    const last = isChat ? { delta: {} } : { text: '' };
    chunks.push({ ...envelope, choices: [{ index, ...last, finish_reason: choice.finish_reason ?? null }] });
  });
  if (asObject(usage) !== undefined) {
    chunks.push({ ...(chunks.length === 0 ? members : envelope), choices: [], usage });
  }
  return [...chunks.map((chunk) => writeSseFrame(stringifyExact(chunk))), writeSseFrame('[DONE]')];
}

function chunkOf(frame: StreamFrame): JsonObject | undefined {
  const { data } = readSseFrame(asBuffer(frame.bytes));
  if (data === undefined || data.trimEnd() === '[DONE]') return undefined;
  const json = parseExactObject(data);
  if (json !== undefined) return json;
  throw new GatewayError(
    'upstream_invalid',
    'The stream holds a frame that is torn, too long or no JSON, so the answer cannot be put together.',
  );
}

/** `delta` becomes `message`; a message has its role and its content, and its calls need no index. */
function chatChoice(choice: JsonObject): JsonObject {
  const { delta, ...members } = choice;
  const message: JsonObject = { role: 'assistant', content: null, ...asObject(delta) };
  if (Array.isArray(message.tool_calls)) {
    message.tool_calls = asArray(message.tool_calls)
      .map(asObject)
      .filter((call) => call !== undefined)
      .sort((left, right) => Number(left.index) - Number(right.index))
      .map((call) => {
        const said = { ...call };
        delete said.index;
        return said;
      });
  }
  return { finish_reason: null, ...members, message };
}

function chatDelta(choice: JsonObject): JsonObject {
  const { message, ...members } = choice;
  const delta = { ...asObject(message) };
  if (Array.isArray(delta.tool_calls)) {
    delta.tool_calls = delta.tool_calls.map((call: unknown, index) => ({ index, ...asObject(call) }));
  }
  return { ...members, delta };
}
