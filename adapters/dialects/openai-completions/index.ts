import type { Dialect, ProviderDialect } from '../../../core/dialects/dialect.ts';
import { chatMembers } from '../openai-chat/host.ts';
import { openAiChat } from '../openai-chat/index.ts';
import {
  type AnswerContext,
  type ChatClientCodec,
  type ChatEventReader,
  type ChatEventWriter,
  type ChatProviderCodec,
  type ClientCall,
  type DecodeContext,
  type EncodedRequest,
  type EncodeReport,
  reportForeignExtras,
} from '../../../core/dialects/canonical/chat-codec.ts';
import { ChatEventBuilder } from '../../../core/dialects/canonical/chat-event-builder.ts';
import { asArray, asObject, type JsonObject, stringifyExact } from '../json-reading.ts';
import { chatAnswer, ChunkDecoder, DoneStreamReader } from '../openai-chat/decode-answer.ts';
import { openAiErrors } from '../openai-shapes.ts';
import { endpointPlan } from '../host-endpoints.ts';
import type { ChatMessage, ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import { reportUnsayable, type Setting } from '../request-settings.ts';
import { mergeExtras } from '../../../core/dialects/canonical/collect-answer.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { chatRequest } from '../openai-chat/decode-request.ts';
import { bodyIssues, requestMember } from '../request-members.ts';
import type { ChatPart } from '../../../core/dialects/canonical/chat-part.ts';
import type { ChatAnswer, TokenLogprob } from '../../../core/dialects/canonical/chat-answer.ts';
import { answerPart, chatLogprobs } from '../openai-chat/answer.ts';
import type { ChatEvent } from '../../../core/dialects/canonical/chat-event.ts';
import type { Usage } from '../../../core/dialects/usage.ts';

/** Writes a stream of `text_completion` chunks. One per answer. */
class CompletionsEventWriter implements ChatEventWriter {
  readonly contentType = 'text/event-stream';
  private readonly context: AnswerContext;
  /** Characters of each choice so far. */
  private readonly lengths: number[] = [];
  /** The JSON of a chunk before its `choices`. */
  private head = '';
  private out = '';
  private usage: Usage | undefined;

  constructor(context: AnswerContext) {
    this.context = context;
  }

  write(events: readonly ChatEvent[]): Buffer | undefined {
    for (const event of events) this.writeEvent(event);
    if (this.out === '') return undefined;
    const bytes = Buffer.from(this.out);
    this.out = '';
    return bytes;
  }

  private writeEvent(event: ChatEvent): void {
    switch (event.type) {
      case 'start':
        return this.start(event);
      case 'text-delta': {
        const offset = this.lengths[event.choice] ?? 0;
        this.lengths[event.choice] = offset + event.text.length;
        const { logprobs } = event;
        const tokens = logprobs === undefined ? 'null' : JSON.stringify(encodeTokenLists(logprobs, offset));
        return this.chunk(event.choice, event.text, tokens, 'null');
      }
      case 'finish': {
        const reason = answerPart.finish(event.finish, this.context.strict, false);
        return this.chunk(event.choice, '', 'null', JSON.stringify(reason));
      }
      case 'usage':
        this.usage = event.usage;
        return;
      case 'error':
        this.out += `data: ${openAiErrors.encodeProvider(event.error, this.context.provider)}\n\n`;
        return;
      case 'end':
        return this.end();
      default:
    }
  }

  private start(event: Extract<ChatEvent, { type: 'start' }>): void {
    const { context } = this;
    const members: JsonObject = {
      id: event.id === '' ? context.newId('cmpl-') : event.id,
      object: 'text_completion',
      created: event.createdAt ?? context.now,
      model: event.model === '' ? context.request.model : event.model,
    };
    if (event.systemFingerprint !== undefined) members.system_fingerprint = event.systemFingerprint;
    this.head = `data: ${JSON.stringify(members).slice(0, -1)},"choices":[`;
    this.usage = event.usage;
  }

  private chunk(choice: number, text: string, logprobs: string, reason: string): void {
    const said = JSON.stringify(text);
    this.out += `${this.head}{"text":${said},"index":${choice},"logprobs":${logprobs},"finish_reason":${reason}}]}\n\n`;
  }

  private end(): void {
    if (this.usage !== undefined && this.context.request.includeUsage === true) {
      const usage = JSON.stringify(answerPart.usage(this.usage, this.context.strict));
      this.out += `${this.head}],"usage":${usage}}\n\n`;
    }
    this.out += 'data: [DONE]\n\n';
  }
}

/** A complete `text_completion`. */
function decodeAnswer(body: Buffer, context: DecodeContext): ChatAnswer {
  return chatAnswer.decodeObject(asChat(chatAnswer.parse(body)), context);
}

/**
 * A `text_completion` (or a chunk of one) in the form of a chat: the text becomes a delta. Modifies `json`, which the
 * decoder owns.
 */
function asChat(json: JsonObject): JsonObject {
  for (const value of asArray(json.choices)) {
    const choice = asObject(value);
    if (choice === undefined || typeof choice.text !== 'string') continue;
    choice.delta = { content: choice.text };
    choice.logprobs = chatLogprobs.encode(decodeTokenLists(choice.logprobs));
  }
  return json;
}

/** A complete answer as a `text_completion`: the text alone. */
function encodeAnswer(answer: ChatAnswer, context: AnswerContext): Buffer {
  const { strict } = context;
  const body: JsonObject = {
    id: answer.id === '' ? context.newId('cmpl-') : answer.id,
    object: 'text_completion',
    created: answer.createdAt ?? context.now,
    model: answer.model === '' ? context.request.model : answer.model,
    choices: answer.choices.map(({ index, parts, finish, logprobs }) => ({
      text: parts.map(textOf).join(''),
      index,
      logprobs: encodeTokenLists(logprobs, 0),
      finish_reason: answerPart.finish(finish, strict, false),
    })),
  };
  if (answer.usage !== undefined) body.usage = answerPart.usage(answer.usage, strict);
  if (answer.systemFingerprint !== undefined) body.system_fingerprint = answer.systemFingerprint;
  return Buffer.from(stringifyExact(body));
}

function textOf(part: ChatPart): string {
  return part.type === 'text' || part.type === 'refusal' ? part.text : '';
}

/** The legacy form: parallel lists. `offset` is the position of the first token in the text. */
function encodeTokenLists(tokens: readonly TokenLogprob[] | undefined, offset: number): JsonObject | null {
  if (tokens === undefined) return null;
  let at = offset;
  const offsets = tokens.map(({ token }) => {
    const start = at;
    at += token.length;
    return start;
  });
  return {
    tokens: tokens.map(({ token }) => token),
    token_logprobs: tokens.map(({ logprob }) => logprob),
    top_logprobs: tokens.map(({ top }) =>
      Object.fromEntries(top.map(({ token, logprob }) => [token, logprob])),
    ),
    text_offset: offsets,
  };
}

/** Reads the legacy form; undefined without tokens. */
function decodeTokenLists(value: unknown): readonly TokenLogprob[] | undefined {
  const lists = asObject(value);
  const tokens = asArray(lists?.tokens);
  if (lists === undefined || tokens.length === 0) return undefined;
  const numbers = asArray(lists.token_logprobs);
  const alternatives = asArray(lists.top_logprobs);
  return tokens.flatMap((token, i) => {
    const logprob = numbers[i];
    // The first token of an echoed prompt has no log probability.
    if (typeof token !== 'string' || typeof logprob !== 'number') return [];
    const top = Object.entries(asObject(alternatives[i]) ?? {}).flatMap(([name, number]) =>
      typeof number === 'number' ? [{ token: name, logprob: number }] : [],
    );
    return [{ token, logprob, top }];
  });
}

const labels: Readonly<Record<ChatMessage['role'], string>> = {
  system: 'System',
  developer: 'System',
  user: 'User',
  assistant: 'Assistant',
  tool: 'Tool',
};

/**
 * A conversation as one prompt: a single user text is the prompt itself, a longer one becomes labelled turns (reported
 * as emulated) that end where the assistant continues. Parts other than text are reported as dropped.
 */
function encodePrompt(messages: readonly ChatMessage[], report: EncodeReport): string {
  const texts = messages.map((message, i) => promptText(message.parts, `messages[${i}]`, report));
  messages.forEach(({ extras, name }, i) => {
    reportForeignExtras(extras, ['openai-completions'], report, `messages[${i}].`);
    if (name !== undefined) report.drop(`messages[${i}].name`);
  });
  if (messages.length === 1 && messages[0]?.role === 'user') return texts[0] as string;
  report.emulate('messages');
  const turns = messages.map(({ role }, i) => `${labels[role]}: ${texts[i] as string}`);
  return [...turns, 'Assistant:'].join('\n\n');
}

function promptText(parts: readonly ChatPart[], place: string, report: EncodeReport): string {
  const texts: string[] = [];
  parts.forEach((part, i) => {
    const where = `${place}.content[${i}]`;
    if (part.type === 'text' || part.type === 'refusal') texts.push(part.text);
    else if (part.type === 'tool-result') texts.push(promptText(part.content, where, report));
    else report.drop(where);
    if (part.cache !== undefined) report.drop(`${where}.cache_control`);
    if (part.type === 'text' && part.signature !== undefined) report.drop(`${where}.signature`);
    if (part.type === 'text' && part.citations !== undefined) report.drop(`${where}.citations`);
    reportForeignExtras(part.extras, ['openai-completions'], report, `${where}.`);
  });
  return texts.join('');
}

/** Members that have a place in the canonical form. */
const knownMembers: ReadonlySet<string> = new Set([
  ...['model', 'prompt', 'stream', 'stream_options', 'max_tokens', 'max_completion_tokens', 'temperature'],
  ...['top_p', 'top_k', 'frequency_penalty', 'presence_penalty', 'seed', 'stop', 'n', 'logprobs'],
  ...['logit_bias', 'user', 'provider_options'],
]);

/**
 * Reads a text completions request: the prompt becomes a user message. Several prompts in one request, and prompts of
 * token numbers, are for hosts of this wire alone (`not_supported`).
 */
function decodeRequest(call: ClientCall): ChatRequest {
  const { body } = call;
  const logprobs = requestMember.number(body, 'logprobs');
  return requestMember.given<ChatRequest>({
    model: call.model,
    stream: call.stream,
    messages: [{ role: 'user', parts: [{ type: 'text', text: promptOf(body.prompt) }] }],
    tools: [],
    ...chatRequest.decodeSampling(body),
    logprobs: logprobs === undefined ? undefined : true,
    topLogprobs: logprobs,
    user: requestMember.text(body, 'user'),
    includeUsage: asObject(body.stream_options)?.include_usage === true ? true : undefined,
    extras: mergeExtras(ownExtras(body), chatRequest.providerOptions(body)),
  });
}

function promptOf(prompt: unknown): string {
  if (typeof prompt === 'string') return prompt;
  if (!Array.isArray(prompt) || prompt.length === 0) {
    throw bodyIssues.unreadable('prompt', 'be a string or an array with one string', prompt);
  }
  const [only] = prompt as readonly unknown[];
  if (prompt.length === 1 && typeof only === 'string') return only;
  const what =
    typeof only === 'string' ? `${prompt.length} prompts in one request` : 'a prompt of token numbers';
  throw new GatewayError(
    'not_supported',
    `The provider is asked in another format, which has no room for ${what}. Send each prompt as text, in a request of its own.`,
    { param: 'prompt' },
  );
}

/** Members without effect (`echo: false`, `best_of: 1`) are not kept, so that they are not reported as lost. */
function ownExtras(body: JsonObject): ChatRequest['extras'] {
  const unknown = requestMember.unknown(body, knownMembers);
  if (unknown === undefined) return undefined;
  if (unknown.echo === false) delete unknown.echo;
  if (unknown.best_of === 1) delete unknown.best_of;
  if (unknown.suffix === '') delete unknown.suffix;
  return Object.keys(unknown).length === 0 ? undefined : { 'openai-completions': unknown };
}

/** A text completions request in the host's form. */
function encodeRequest(request: ChatRequest, host: HostFacts, report: EncodeReport): EncodedRequest {
  const body: JsonObject = { model: host.model, prompt: encodePrompt(request.messages, report) };
  chatMembers.addSampling(body, request, host, report);
  // The wire requires a number; 0, the most likely token alone, is the smallest that enables log probabilities.
  const logprobs = request.logprobs === true ? (request.topLogprobs ?? 0) : undefined;
  chatMembers.addGiven(body, { logprobs, user: request.user });
  if (request.stream) {
    body.stream = true;
    if (host.usageInStream === 'on_request') body.stream_options = { include_usage: true };
  }
  request.tools.forEach((_tool, i) => report.drop(`tools[${i}]`));
  reportUnsayable(request, unsayable, report);
  reportForeignExtras(request.extras, ['openai-completions'], report);
  return {
    path: host.quirks.paths?.completions ?? '/completions',
    body: stringifyExact(
      Object.assign(chatMembers.applyQuirks(body, host, report), request.extras?.['openai-completions']),
    ),
  };
}

/** Settings of a conversation that a prompt cannot express. */
const unsayable: readonly Setting[] = [
  ...(['tool_choice', 'parallel_tool_calls', 'response_format', 'reasoning_effort', 'verbosity'] as const),
  ...(['safety_identifier', 'prompt_cache_key', 'metadata', 'service_tier', 'store', 'modalities'] as const),
  'audio',
];

/** Hosts with text completions and no chat: their own requests pass unchanged, conversations become prompts. */
export const openAiCompletionsHost: ProviderDialect = {
  name: 'openai-completions',
  plan(call) {
    if (call.endpoint === 'messages.count_tokens') return endpointPlan.refused(call, 'counting of tokens');
    if (call.endpoint !== 'completions')
      return endpointPlan.translated(call, openAiCompletionsProvider) ?? endpointPlan.passOn(call);
    const path = call.host.quirks.paths?.completions;
    return path === undefined ? endpointPlan.passOn(call) : { kind: 'pass', path: path + call.query };
  },
};

/** Text completions on the client side. */
export const openAiCompletionsClient: ChatClientCodec = {
  decodeRequest,
  encodeAnswer,
  eventWriter: (context) => new CompletionsEventWriter(context),
  encodeProviderError: (error, { provider }) => Buffer.from(openAiErrors.encodeProvider(error, provider)),
};

/** Text completions on the provider side, for hosts without chat. */
export const openAiCompletionsProvider: ChatProviderCodec = {
  encodeRequest,
  decodeAnswer,
  eventReader: createEventReader,
  decodeError: openAiErrors.decode,
};

function createEventReader(contentType: string, context: DecodeContext): ChatEventReader {
  const builder = new ChatEventBuilder();
  return new DoneStreamReader(contentType, builder, new CompletionsDecoder(builder, context));
}

/** Reads the chunks of a stream of text. */
class CompletionsDecoder extends ChunkDecoder {
  override read(json: JsonObject): void {
    super.read(asChat(json));
  }
}

/** The OpenAI text completions wire. Its streams and errors are those of chat, with text in place of deltas. */
export const openAiCompletions: Dialect = {
  ...openAiChat,
  name: 'openai-completions',
  chat: openAiCompletionsClient,
};
