import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { Type, type TSchema } from 'typebox';
import type { Dialect, AnswerFacts, AnswerTextPlace, RequestIssue } from '../../../core/dialects/dialect.ts';
import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import { FrameScanner, type Watch, watch, type EventReader } from '../frame-scanner.ts';
import { asText, type JsonObject, asArray, asObject, asBuffer, parseObject } from '../json-reading.ts';
import { choiceIndex, openAiErrors, openAiUsage } from '../openai-shapes.ts';
import { bodyIssues } from '../request-members.ts';
import { wholeAnswer } from './replay-answer.ts';
import { chatRequest } from './decode-request.ts';
import { chatFrames } from './frames.ts';
import type { ChatClientCodec } from '../../../core/dialects/canonical/chat-codec.ts';
import { OpenAiChatEventWriter, encodeAnswer } from './encode-answer.ts';

/**
 * Bounds of a number in a request. A custom keyword, because `type: integer` refuses the BigInt of an integer beyond
 * 2^53, and because null means "not given".
 */
interface NumberRule {
  readonly whole: boolean;
  readonly minimum: number;
  readonly maximum: number;
}

/** Name of that keyword. */
const numberKeyword = 'numberWithin';

/** Published range of `seed`; slightly wider than 64 bits, as in OpenAI's specification. */
const seedBound = 9_223_372_036_854_776_000;

const number = (minimum: number, maximum: number): TSchema =>
  numberSchema({ whole: false, minimum, maximum });
const integer = (minimum: number, maximum: number): TSchema =>
  numberSchema({ whole: true, minimum, maximum });
const count = integer(0, Number.MAX_VALUE);
const boolean = Type.Unsafe({ type: ['boolean', 'null'] });
const string = Type.Unsafe({ type: ['string', 'null'] });

const FunctionDefinition = Type.Object({ name: Type.String() });

/**
 * Only the specification's rule for a tool: a function needs a name. Other types are refused in strict requests alone.
 */
const Tool = Type.Unsafe({
  type: 'object',
  required: ['type'],
  properties: { type: { type: 'string' } },
  if: { type: 'object', required: ['type'], properties: { type: { const: 'function' } } },
  then: { type: 'object', required: ['function'], properties: { function: FunctionDefinition } },
});

/** A function choice names its function. Other types (`allowed_tools`, `custom`) are refused in strict requests alone. */
const ToolChoice = Type.Unsafe({
  type: ['string', 'object', 'null'],
  if: { type: 'object', properties: { type: { const: 'function' } } },
  then: { type: 'object', required: ['function'], properties: { function: FunctionDefinition } },
  else: { if: { type: 'string' }, then: { enum: ['none', 'auto', 'required'] } },
});

/** `POST /chat/completions`. Members outside the schema pass. */
const ChatRequestSchema = Type.Object({
  messages: Type.Array(
    Type.Object({
      role: Type.Unsafe({ enum: ['system', 'developer', 'user', 'assistant', 'tool', 'function'] }),
    }),
    { minItems: 1 },
  ),
  model: Type.String(),
  frequency_penalty: Type.Optional(number(-2, 2)),
  presence_penalty: Type.Optional(number(-2, 2)),
  logit_bias: Type.Optional(
    Type.Unsafe({ type: ['object', 'null'], additionalProperties: number(-100, 100) }),
  ),
  logprobs: Type.Optional(boolean),
  top_logprobs: Type.Optional(integer(0, 20)),
  max_tokens: Type.Optional(count),
  max_completion_tokens: Type.Optional(count),
  n: Type.Optional(integer(1, 128)),
  response_format: Type.Optional(
    Type.Unsafe({
      type: ['object', 'null'],
      required: ['type'],
      properties: { type: { enum: ['text', 'json_schema', 'json_object'] } },
    }),
  ),
  seed: Type.Optional(integer(-seedBound, seedBound)),
  stop: Type.Optional(
    Type.Unsafe({ type: ['string', 'array', 'null'], maxItems: 4, items: { type: 'string' } }),
  ),
  stream: Type.Optional(boolean),
  stream_options: Type.Optional(Type.Unsafe({ type: ['object', 'null'] })),
  thinking: Type.Optional(
    Type.Unsafe({
      type: ['object', 'null'],
      required: ['type', 'budget_tokens'],
      properties: {
        type: { const: 'enabled' },
        budget_tokens: { allOf: [{ not: { type: 'null' } }, count] },
      },
    }),
  ),
  temperature: Type.Optional(number(0, 2)),
  top_p: Type.Optional(number(0, 1)),
  tools: Type.Optional(Type.Unsafe({ type: ['array', 'null'], maxItems: 128, items: Tool })),
  tool_choice: Type.Optional(ToolChoice),
  parallel_tool_calls: Type.Optional(boolean),
  user: Type.Optional(string),
  function_call: Type.Optional(
    Type.Unsafe({
      type: ['string', 'object', 'null'],
      if: { type: 'string' },
      then: { enum: ['none', 'auto'] },
      else: { if: { type: 'object' }, then: FunctionDefinition },
    }),
  ),
  functions: Type.Optional(
    Type.Unsafe({ type: ['array', 'null'], minItems: 1, maxItems: 128, items: FunctionDefinition }),
  ),
});

/** `POST /moderations`. Arrays pass; models outside the specification are refused in strict requests alone. */
const ModerationRequestSchema = Type.Object({
  input: Type.Unsafe({ type: ['string', 'array'], items: { type: ['string', 'object'] } }),
  model: Type.Optional(string),
});

function numberSchema(rule: NumberRule): TSchema {
  return Type.Unsafe({ [numberKeyword]: rule });
}

const ajv = new Ajv2020({ allErrors: false, verbose: true, allowUnionTypes: true });
ajv.addKeyword({ keyword: numberKeyword, schemaType: 'object', compile: numberCheck, errors: true });

const validators: Partial<Record<EndpointId, ValidateFunction>> = {
  'chat.completions': ajv.compile(ChatRequestSchema),
  moderations: ajv.compile(ModerationRequestSchema),
};

/** The first rule of the specification that a body violates. Null means "not given" in optional members. */
export function validateRequest(
  endpoint: EndpointId,
  body: unknown,
  strict: boolean,
): RequestIssue | undefined {
  const unusable = bodyIssues.body(body);
  const validate = validators[endpoint];
  if (unusable !== undefined || validate === undefined) return unusable;
  if (!validate(body)) {
    const [first] = validate.errors ?? [];
    return first === undefined ? undefined : bodyIssues.of(first, body);
  }
  const strictly = strict ? strictIssue(endpoint, asObject(body) ?? {}) : undefined;
  return strictly ?? (endpoint === 'chat.completions' ? dependentIssue(body, strict) : undefined);
}

const moderationModels: ReadonlySet<unknown> = new Set(['text-moderation-stable', 'text-moderation-latest']);

/**
 * Issue of a member outside the specification, which newer or other hosts accept: it passes unless compliance is
 * strict.
 */
function strictIssue(
  endpoint: EndpointId,
  { model, tools, tool_choice: choice }: Readonly<Record<string, unknown>>,
): RequestIssue | undefined {
  if (endpoint === 'moderations') {
    if (!isGiven(model) || moderationModels.has(model)) return undefined;
    return outOfRangeIssue('model', `'text-moderation-stable' or 'text-moderation-latest'`, model);
  }
  if (Array.isArray(tools)) {
    const at = tools.findIndex((tool) => asObject(tool)?.type !== 'function');
    if (at !== -1) return outOfRangeIssue(`tools[${at}].type`, "'function'", asObject(tools[at])?.type);
  }
  const chosen = asObject(choice);
  if (chosen === undefined || chosen.type === 'function') return undefined;
  return outOfRangeIssue('tool_choice.type', "'function'", chosen.type);
}

function outOfRangeIssue(param: string, rule: string, found: unknown): RequestIssue {
  return {
    param,
    message: `${param} must be ${rule}; found ${bodyIssues.describe(found)}. Others are sent on when strict_openai_compliance is false.`,
  };
}

/** Rules across members. */
function dependentIssue(body: unknown, strict: boolean): RequestIssue | undefined {
  const request = asObject(body) ?? {};
  if (isGiven(request.top_logprobs) && request.logprobs !== true) {
    return {
      param: 'top_logprobs',
      message: `top_logprobs requires logprobs to be true; found ${bodyIssues.describe(request.logprobs)}.`,
    };
  }
  if (isGiven(request.stream_options) && request.stream !== true) {
    return {
      param: 'stream_options',
      message: `stream_options is only allowed when stream is true; found ${bodyIssues.describe(request.stream)}.`,
    };
  }
  if (isGiven(request.thinking) && strict) {
    return {
      param: 'thinking',
      message: 'thinking is no part of the OpenAI API: it requires strict_openai_compliance to be false.',
    };
  }
  return undefined;
}

/** Null counts as an absent member. */
function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null;
}

interface NumberCheck {
  (value: unknown): boolean;
  errors?: { keyword: string; params: { rule: string } }[];
}

function numberCheck(rule: NumberRule): NumberCheck {
  const errors = [{ keyword: numberKeyword, params: { rule: describeRule(rule) } }];
  const check: NumberCheck = (value) => {
    if (value === null) return true;
    const fits =
      (typeof value === 'bigint' || (rule.whole ? Number.isInteger(value) : Number.isFinite(value))) &&
      (value as number | bigint) >= rule.minimum &&
      (value as number | bigint) <= rule.maximum;
    if (!fits) check.errors = errors;
    return fits;
  };
  return check;
}

function describeRule({ whole, minimum, maximum }: NumberRule): string {
  const kind = whole ? 'be an integer' : 'be a number';
  return maximum === Number.MAX_VALUE
    ? `${kind} of at least ${minimum}`
    : `${kind} between ${minimum} and ${maximum}`;
}

/** Members that cause a frame to be parsed after the first token. */
const watchedMembers: readonly Watch[] = [
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
class ChatStreamReader implements EventReader {
  readonly facts: AnswerFacts = {};
  /** The end marker is `[DONE]`, which is not an event. */
  readonly ended = false;
  private reasons: Map<number, string> | undefined;

  read(json: JsonObject, event: string): boolean {
    const { facts } = this;
    const model = asText(json.model);
    if (model !== undefined) facts.model ??= model;
    const usage = openAiUsage.of(json);
    if (usage !== undefined) facts.usage = usage;
    const errorMessage = openAiErrors.message(json, event);
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
  const usage = openAiUsage.of(json);
  if (usage !== undefined) facts.usage = usage;
  const model = asText(json.model);
  if (model !== undefined) facts.model = model;
  const finishReason = finishReasons(json);
  if (finishReason !== '') facts.finishReason = finishReason;
  const errorMessage = openAiErrors.message(json);
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

/** `usage` and `model` come before or after the vectors, which hold no member names of their own. */
function scanAroundVectors(bytes: Buffer): AnswerFacts | undefined {
  const usageText = memberText(bytes, usageMember, '}');
  const usage =
    usageText === undefined ? undefined : openAiUsage.decode(parseObject(`{${usageText}}`)?.usage);
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
function decodeAnswerTexts(_endpoint: EndpointId, answer: unknown): readonly AnswerTextPlace[] {
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

/** Chat completions on the client side. */
export const openAiChatClient: ChatClientCodec = {
  decodeRequest: chatRequest.decode,
  encodeAnswer,
  eventWriter: (context) => new OpenAiChatEventWriter(context),
  encodeProviderError: (error, { provider }) => Buffer.from(openAiErrors.encodeProvider(error, provider)),
};

/** The OpenAI wire: chat, completions, embeddings, moderations, rerank, and every other proxied path. */
export const openAiChat: Dialect = {
  name: 'openai-chat',
  validateRequest,
  decodeConversation: chatRequest.decodeConversation,
  decodeAnswerTexts,
  chat: openAiChatClient,
  scanAnswer,
  streamScanner: () => new FrameScanner(new ChatStreamReader(), watchedMembers),
  usageStripper: () => chatFrames.createUsageStripper(),
  frames: {
    reader: () => chatFrames.createReader(),
    rewrite: chatFrames.rewrite,
    assemble: wholeAnswer.assemble,
    disassemble: wholeAnswer.disassemble,
  },
  encodeError: openAiErrors.encode,
  encodeStreamError: openAiErrors.encodeStream,
};
