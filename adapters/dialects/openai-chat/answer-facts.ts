import type { AnswerFacts, AnswerTextPlace } from '../../../core/dialects/dialect.ts';
import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import type { Usage } from '../../../core/dialects/usage.ts';
import { asArray, asBuffer, asObject, asText, type JsonObject, parseObject } from '../json-reading.ts';
import { decodeOpenAiUsage, openAiErrorMessage } from '../openai-shapes.ts';
import { type EventReader, watch, type Watch } from '../frame-scanner.ts';

/** Members that cause a frame to be parsed after the first token. */
export const watchedMembers: readonly Watch[] = [
  watch('usage', 'object'),
  watch('finish_reason', 'string'),
  watch('error', 'anything but null'),
];

/** Members of a delta that carry a token when they are not empty. */
const tokenMembers = [
  'content',
  'reasoning_content',
  'reasoning',
  'refusal',
  'tool_calls',
  'function_call',
  'audio',
] as const;

/** Collects usage, model, finish reasons and errors from the events of a chat or completions stream. */
export class ChatStreamReader implements EventReader {
  readonly facts: AnswerFacts = {};
  /** The end marker is `[DONE]`, which is not an event. */
  readonly ended = false;
  private reasons: Map<number, string> | undefined;

  read(json: JsonObject, event: string): boolean {
    const { facts } = this;
    const model = asText(json.model);
    if (model !== undefined) facts.model ??= model;
    const usage = usageOf(json);
    if (usage !== undefined) facts.usage = usage;
    const errorMessage = openAiErrorMessage(json, event);
    if (errorMessage !== undefined) facts.errorMessage = errorMessage;
    let token = false;
    asArray(json.choices).forEach((value, position) => {
      const choice = asObject(value);
      if (choice === undefined) return;
      this.learnReason(choice, position);
      token ||= bringsToken(choice);
    });
    return token;
  }

  private learnReason(choice: JsonObject, position: number): void {
    const reason = asText(choice.finish_reason);
    if (reason === undefined) return;
    const reasons = (this.reasons ??= new Map<number, string>());
    reasons.set(choiceIndex(choice, position), reason);
    const inOrder = [...reasons].sort(([left], [right]) => left - right);
    this.facts.finishReason = inOrder.map(([, text]) => text).join(',');
  }
}

/** The index of a choice; its position when the host leaves it out. */
export function choiceIndex(choice: JsonObject, position: number): number {
  return typeof choice.index === 'number' ? choice.index : position;
}

function bringsToken(choice: JsonObject): boolean {
  if (asText(choice.text) !== undefined) return true;
  const delta = asObject(choice.delta);
  return delta !== undefined && tokenMembers.some((member) => isNotEmpty(delta[member]));
}

function isNotEmpty(value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0;
  return asText(value) !== undefined || asObject(value) !== undefined;
}

const usageMember = Buffer.from('"usage"');
const modelMember = Buffer.from('"model"');
/** An embeddings answer of at least this size is not parsed: it is nearly all vectors. */
const largeAnswerBytes = 8 * 1024;
/** The members around the vectors are short; a longer `usage` object is ignored. */
const maxMemberBytes = 4 * 1024;

/** Facts of a complete answer. Never throws; an answer that is no JSON object has none. */
export function scanAnswer(endpoint: EndpointId, body: Uint8Array): AnswerFacts {
  const bytes = asBuffer(body);
  if (endpoint === 'embeddings' && bytes.length > largeAnswerBytes) {
    const facts = scanAroundVectors(bytes);
    if (facts !== undefined) return facts;
  }
  const json = parseObject(bytes.toString('utf8'));
  if (json === undefined) return {};
  const facts: AnswerFacts = {};
  const usage = usageOf(json);
  if (usage !== undefined) facts.usage = usage;
  const model = asText(json.model);
  if (model !== undefined) facts.model = model;
  const finishReason = finishReasons(json);
  if (finishReason !== '') facts.finishReason = finishReason;
  const errorMessage = openAiErrorMessage(json);
  if (errorMessage !== undefined) facts.errorMessage = errorMessage;
  return facts;
}

/** The finish reasons of all choices, comma-separated. */
function finishReasons(json: JsonObject): string {
  let reasons = '';
  for (const choice of asArray(json.choices)) {
    const reason = asText(asObject(choice)?.finish_reason);
    if (reason !== undefined) reasons = reasons === '' ? reason : `${reasons},${reason}`;
  }
  return reasons;
}

/** The usage of an answer or a stream event, in any place that compatible hosts use. */
export function usageOf(json: JsonObject): Usage | undefined {
  const direct = decodeOpenAiUsage(json.usage) ?? decodeOpenAiUsage(asObject(json.x_groq)?.usage);
  if (direct !== undefined) return direct;
  for (const choice of asArray(json.choices)) {
    const usage = decodeOpenAiUsage(asObject(choice)?.usage);
    if (usage !== undefined) return usage;
  }
  return undefined;
}

/** `usage` and `model` come before or after the vectors, which hold no member names of their own. */
function scanAroundVectors(bytes: Buffer): AnswerFacts | undefined {
  const usageText = memberText(bytes, usageMember, '}');
  const usage = usageText === undefined ? undefined : decodeOpenAiUsage(parseObject(`{${usageText}}`)?.usage);
  if (usage === undefined) return undefined;
  const modelText = memberText(bytes, modelMember, '"');
  const model = modelText === undefined ? undefined : asText(parseObject(`{${modelText}}`)?.model);
  return model === undefined ? { usage } : { usage, model };
}

/** A member from its name to the last `closing` with which it can be parsed. */
function memberText(bytes: Buffer, name: Buffer, closing: string): string | undefined {
  const start = bytes.lastIndexOf(name);
  if (start === -1) return undefined;
  const text = bytes.toString('utf8', start, start + maxMemberBytes);
  for (let end = text.indexOf(closing, name.length); end !== -1; end = text.indexOf(closing, end + 1)) {
    const member = text.slice(0, end + 1);
    if (parseObject(`{${member}}`) !== undefined) return member;
  }
  return undefined;
}

type Path = AnswerTextPlace['path'];

/**
 * The generated texts of a complete chat or completions answer. Copies that some hosts put beside a text are emptied
 * with it.
 */
export function decodeAnswerTexts(_endpoint: EndpointId, answer: unknown): readonly AnswerTextPlace[] {
  return asArray(asObject(answer)?.choices).flatMap((value, position) => {
    const choice = asObject(value);
    return choice === undefined
      ? []
      : choiceTexts(choice, choiceIndex(choice, position), ['choices', position]);
  });
}

function choiceTexts(choice: JsonObject, index: number, path: Path): readonly AnswerTextPlace[] {
  const places: AnswerTextPlace[] = [];
  const message = asObject(choice.message);
  const copies = copiesOf(choice, message, path);
  const add = (type: 'text' | 'reasoning', text: unknown, at: Path, more: typeof copies = []): void => {
    if (typeof text === 'string')
      places.push({ type, choice: index, text, path: at, beside: [...copies, ...more] });
  };
  add('text', choice.text, [...path, 'text']);
  if (message === undefined) return places;
  const at = [...path, 'message'];
  // Some hosts send the same text under both names.
  const isTwice = message.reasoning_content === message.reasoning;
  const twin = { path: [...at, 'reasoning'], value: 'same' } as const;
  add('reasoning', message.reasoning_content, [...at, 'reasoning_content'], isTwice ? [twin] : []);
  if (!isTwice) add('reasoning', message.reasoning, [...at, 'reasoning']);
  add('text', message.content, [...at, 'content']);
  asArray(message.content).forEach((value, i) => {
    const part = asObject(value) ?? {};
    add('text', part.text, [...at, 'content', i, 'text']);
    asArray(part.thinking).forEach((thought, j) => {
      add('reasoning', asObject(thought)?.text, [...at, 'content', i, 'thinking', j, 'text']);
    });
  });
  add('text', message.refusal, [...at, 'refusal']);
  const audio = asObject(message.audio);
  const sound = { path: [...at, 'audio', 'data'], value: '' } as const;
  add(
    'text',
    audio?.transcript,
    [...at, 'audio', 'transcript'],
    typeof audio?.data === 'string' ? [sound] : [],
  );
  return [...places, ...callTexts(message, index, at)];
}

/** Members of the choice that repeat its text or refer to positions in it. */
function copiesOf(
  choice: JsonObject,
  message: JsonObject | undefined,
  path: Path,
): AnswerTextPlace['beside'] {
  const copies: AnswerTextPlace['beside'][number][] = [];
  if (choice.logprobs !== undefined && choice.logprobs !== null)
    copies.push({ path: [...path, 'logprobs'], value: null });
  for (const member of ['content_blocks', 'reasoning_details', 'annotations'] as const)
    if (Array.isArray(message?.[member])) copies.push({ path: [...path, 'message', member], value: [] });
  return copies;
}

function callTexts(message: JsonObject, choice: number, path: Path): readonly AnswerTextPlace[] {
  const places: AnswerTextPlace[] = [];
  const add = (definition: JsonObject | undefined, call: number, at: Path, member: string): void => {
    if (definition === undefined) return;
    const { name, [member]: text } = definition;
    if (typeof text !== 'string') return;
    places.push({
      type: 'tool-arguments',
      choice,
      call,
      text,
      path: [...at, member],
      beside: [],
      ...(typeof name === 'string' ? { name } : {}),
    });
  };
  asArray(message.tool_calls).forEach((value, i) => {
    const call = asObject(value);
    add(asObject(call?.function), i, [...path, 'tool_calls', i, 'function'], 'arguments');
    add(asObject(call?.custom), i, [...path, 'tool_calls', i, 'custom'], 'input');
  });
  add(asObject(message.function_call), 0, [...path, 'function_call'], 'arguments');
  return places;
}
