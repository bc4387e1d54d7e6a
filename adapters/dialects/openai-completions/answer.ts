import type { ChatAnswer, TokenLogprob } from '../../../core/dialects/canonical/chat-answer.ts';
import type {
  AnswerContext,
  ChatEventWriter,
  DecodeContext,
} from '../../../core/dialects/canonical/chat-codec.ts';
import { asArray, asObject, type JsonObject, stringifyExact } from '../json-reading.ts';
import { encodeFinish, encodeLogprobs, encodeUsage } from '../openai-chat/answer.ts';
import { decodeAnswerObject, parseAnswer } from '../openai-chat/decode-answer.ts';
import type { ChatPart } from '../../../core/dialects/canonical/chat-part.ts';
import type { ChatEvent } from '../../../core/dialects/canonical/chat-event.ts';
import type { Usage } from '../../../core/dialects/usage.ts';
import { encodeOpenAiProviderError } from '../openai-shapes.ts';

/** Writes a stream of `text_completion` chunks. One per answer. */
export class CompletionsEventWriter implements ChatEventWriter {
  readonly contentType = 'text/event-stream';
  private readonly context: AnswerContext;
  /** Characters of each choice so far. */
  private readonly lengths: number[] = [];
  /** Everything of a chunk before its `choices`. */
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
        const reason = encodeFinish(event.finish, this.context.strict, false);
        return this.chunk(event.choice, '', 'null', JSON.stringify(reason));
      }
      case 'usage':
        this.usage = event.usage;
        return;
      case 'error':
        this.out += `data: ${encodeOpenAiProviderError(event.error, this.context.provider)}\n\n`;
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
      const usage = JSON.stringify(encodeUsage(this.usage, this.context.strict));
      this.out += `${this.head}],"usage":${usage}}\n\n`;
    }
    this.out += 'data: [DONE]\n\n';
  }
}

/** A complete `text_completion`. */
export function decodeAnswer(body: Buffer, context: DecodeContext): ChatAnswer {
  return decodeAnswerObject(asChat(parseAnswer(body)), context);
}

/**
 * A `text_completion` (or a chunk of one) in the words of a chat: the text becomes what a delta says. Changes `json`,
 * which is the decoder's own.
 */
export function asChat(json: JsonObject): JsonObject {
  for (const value of asArray(json.choices)) {
    const choice = asObject(value);
    if (choice === undefined || typeof choice.text !== 'string') continue;
    choice.delta = { content: choice.text };
    choice.logprobs = encodeLogprobs(decodeTokenLists(choice.logprobs));
  }
  return json;
}

/** A complete answer as a `text_completion`: the text alone. */
export function encodeAnswer(answer: ChatAnswer, context: AnswerContext): Buffer {
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
      finish_reason: encodeFinish(finish, strict, false),
    })),
  };
  if (answer.usage !== undefined) body.usage = encodeUsage(answer.usage, strict);
  if (answer.systemFingerprint !== undefined) body.system_fingerprint = answer.systemFingerprint;
  return Buffer.from(stringifyExact(body));
}

function textOf(part: ChatPart): string {
  return part.type === 'text' || part.type === 'refusal' ? part.text : '';
}

/** The legacy form: parallel lists. `offset` is where the first token stands in the text. */
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

/** Reads it; undefined when it tells no token. */
function decodeTokenLists(value: unknown): readonly TokenLogprob[] | undefined {
  const lists = asObject(value);
  const tokens = asArray(lists?.tokens);
  if (lists === undefined || tokens.length === 0) return undefined;
  const numbers = asArray(lists.token_logprobs);
  const alternatives = asArray(lists.top_logprobs);
  return tokens.flatMap((token, i) => {
    const logprob = numbers[i];
    // The first token of an echoed prompt has none.
    if (typeof token !== 'string' || typeof logprob !== 'number') return [];
    const top = Object.entries(asObject(alternatives[i]) ?? {}).flatMap(([name, number]) =>
      typeof number === 'number' ? [{ token: name, logprob: number }] : [],
    );
    return [{ token, logprob, top }];
  });
}
