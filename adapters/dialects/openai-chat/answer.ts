import type { ChatAnswer, Finish, TokenLogprob } from '../../../core/dialects/canonical/chat-answer.ts';
import type { AnswerContext } from '../../../core/dialects/canonical/chat-codec.ts';
import type {
  AudioPart,
  ChatPart,
  Citation,
  Extras,
  ImagePart,
  ToolCallPart,
} from '../../../core/dialects/canonical/chat-part.ts';
import type { Usage } from '../../../core/dialects/usage.ts';
import { asArray, asObject, asText, type JsonObject, stringifyExact } from '../json-reading.ts';
import { encodeOpenAiUsage } from '../openai-shapes.ts';
import { dataUrl, given } from '../request-members.ts';

/**
 * The reasons that OpenAI documents, and the status of a complete response, which carries no reason: they are written
 * by their meaning, not copied from the host.
 */
const documented: ReadonlySet<string> = new Set([
  'stop',
  'length',
  'tool_calls',
  'function_call',
  'content_filter',
  'completed',
]);

/**
 * The `finish_reason`. `strict`: a documented one; a failed or interrupted answer is `length`, the documented reason
 * for an incomplete one. Otherwise the provider's own reason, when it wrote one.
 */
export function encodeFinish(finish: Finish, strict: boolean, legacy: boolean): string {
  if (!strict && finish.raw !== '' && !documented.has(finish.raw)) return finish.raw;
  switch (finish.reason) {
    case 'tool-calls':
      return legacy ? 'function_call' : 'tool_calls';
    case 'content-filter':
      return 'content_filter';
    case 'length':
    case 'error':
      return 'length';
    default:
      return 'stop';
  }
}

/** A complete answer as a `chat.completion`. */
export function encodeAnswer(answer: ChatAnswer, context: AnswerContext): Buffer {
  const { strict } = context;
  const style = messageStyle(context);
  const body: JsonObject = {
    id: answer.id === '' ? context.newId('chatcmpl-') : answer.id,
    object: 'chat.completion',
    created: answer.createdAt ?? context.now,
    model: answer.model === '' ? context.request.model : answer.model,
    choices: answer.choices.map(({ index, parts, finish, logprobs, extras }) => {
      const choice: JsonObject = {
        index,
        message: encodeMessage(parts, style),
        logprobs: encodeLogprobs(logprobs),
        finish_reason: encodeFinish(finish, strict, style.legacy),
      };
      if (!strict) {
        if (finish.stopSequence !== undefined) choice.stop_sequence = finish.stopSequence;
        addExtras(choice, extras);
      }
      return choice;
    }),
  };
  if (answer.usage !== undefined) body.usage = encodeUsage(answer.usage, strict);
  if (answer.serviceTier !== undefined) body.service_tier = answer.serviceTier;
  if (answer.systemFingerprint !== undefined) body.system_fingerprint = answer.systemFingerprint;
  if (!strict) addExtras(body, answer.extras);
  return Buffer.from(stringifyExact(body));
}

/** Message form of this exchange. */
export function messageStyle({ request, strict, now, newId }: AnswerContext): MessageStyle {
  return { strict, legacy: request.legacyFunctions === true, expiresAt: now, newId };
}

/** The `usage` member; when not strict, also the members that Anthropic's clients read. */
export function encodeUsage(usage: Usage, strict: boolean): JsonObject {
  const encoded = encodeOpenAiUsage(usage);
  if (strict) return encoded;
  if (usage.cachedTokens > 0) encoded.cache_read_input_tokens = usage.cachedTokens;
  if (usage.cacheWriteTokens > 0) encoded.cache_creation_input_tokens = usage.cacheWriteTokens;
  return encoded;
}

/** Adds extras: this wire's members in their place, those of others under `provider_fields`. */
export function addExtras(holder: JsonObject, extras: Extras | undefined): void {
  if (extras === undefined) return;
  const { 'openai-chat': own, ...others } = extras;
  for (const [name, value] of Object.entries(own ?? {})) {
    if (!(name in holder)) holder[name] = value;
  }
  if (Object.keys(others).length > 0) holder.provider_fields = others;
}

/** Options that decide the form of a message. */
export interface MessageStyle {
  /**
   * Only documented members and the two that nearly every client supports (`reasoning_content`, thought signatures).
   */
  readonly strict: boolean;
  /** One `function_call` instead of `tool_calls`. */
  readonly legacy: boolean;
  /** Expiry of a recording in Unix seconds, when the provider gives none. */
  readonly expiresAt: number;
  readonly newId: (prefix: string) => string;
}

/** The `message` of a choice. */
function encodeMessage(parts: readonly ChatPart[], style: MessageStyle): JsonObject {
  const message: JsonObject = { role: 'assistant', content: null, refusal: null };
  const annotations: JsonObject[] = [];
  const calls: ToolCallPart[] = [];
  const images: JsonObject[] = [];
  for (const part of parts) {
    switch (part.type) {
      case 'text': {
        const before = (message.content as string | null) ?? '';
        message.content = before + part.text;
        for (const citation of part.citations ?? []) {
          const annotation = encodeAnnotation(citation, before.length, part.text.length);
          if (annotation !== undefined) annotations.push(annotation);
        }
        break;
      }
      case 'refusal':
        message.refusal = ((message.refusal as string | null) ?? '') + part.text;
        break;
      case 'reasoning':
        if (part.text !== '') {
          message.reasoning_content = ((message.reasoning_content as string | undefined) ?? '') + part.text;
        }
        break;
      case 'tool-call':
        calls.push(part);
        break;
      case 'audio':
        message.audio = encodeAudio(part, style);
        break;
      case 'image':
        images.push(encodeImage(part, images.length));
        break;
      default:
    }
  }
  if (annotations.length > 0) message.annotations = annotations;
  if (images.length > 0) message.images = images;
  addCalls(message, calls, style);
  if (!style.strict) {
    const blocks = parts.map(contentBlock).filter((block) => block !== undefined);
    if (blocks.length > 0) message.content_blocks = blocks;
  }
  return message;
}

function addCalls(message: JsonObject, calls: readonly ToolCallPart[], style: MessageStyle): void {
  const [first] = calls;
  if (first === undefined) return;
  if (style.legacy) message.function_call = { name: first.name, arguments: first.arguments };
  else message.tool_calls = calls.map(encodeToolCall);
}

/** An element of `tool_calls`. */
export function encodeToolCall(call: ToolCallPart): JsonObject {
  const { id, name, kind, signature } = call;
  const encoded: JsonObject =
    kind === 'custom'
      ? { id, type: 'custom', custom: { name, input: call.arguments } }
      : { id, type: 'function', function: { name, arguments: call.arguments } };
  if (signature !== undefined) encoded.extra_content = signatureContent(signature);
  return encoded;
}

/** Place where Google's compatibility API, and clients that follow it, keep the thought signature of a call. */
export function signatureContent(signature: string): JsonObject {
  return { google: { thought_signature: signature } };
}

/** An element of `images`, the form of hosts whose chat models generate images. */
export function encodeImage(part: ImagePart, index: number): JsonObject {
  const { source } = part;
  const url = source.kind === 'url' ? source.url : source.kind === 'base64' ? dataUrl(source) : '';
  return { type: 'image_url', image_url: { url }, index };
}

/** The `audio` member of a message or the first delta. */
export function encodeAudio(part: AudioPart, style: Pick<MessageStyle, 'expiresAt' | 'newId'>): JsonObject {
  return {
    id: part.id ?? style.newId('audio_'),
    data: part.source.kind === 'base64' ? part.source.data : '',
    transcript: part.transcript ?? '',
    expires_at: part.expiresAt ?? style.expiresAt,
  };
}

/** The tokens of a choice's `logprobs`; undefined when there are none. */
export function decodeLogprobs(value: unknown): readonly TokenLogprob[] | undefined {
  const content = asArray(asObject(value)?.content);
  if (content.length === 0) return undefined;
  const tokens: TokenLogprob[] = [];
  for (const item of content) {
    const token = readToken(item);
    if (token === undefined) continue;
    const top = asArray(asObject(item)?.top_logprobs)
      .map(readToken)
      .filter((one) => one !== undefined);
    tokens.push({ ...token, top });
  }
  return tokens;
}

/** The inverse: tokens in the form of a choice. */
export function encodeLogprobs(tokens: readonly TokenLogprob[] | undefined): JsonObject | null {
  if (tokens === undefined) return null;
  return {
    content: tokens.map(({ top, ...token }) => ({ ...plain(token), top_logprobs: top.map(plain) })),
    refusal: null,
  };
}

function plain({ token, logprob, bytes }: Omit<TokenLogprob, 'top'>): JsonObject {
  return { token, logprob, bytes: bytes ?? null };
}

function readToken(value: unknown): Omit<TokenLogprob, 'top'> | undefined {
  const item = asObject(value);
  if (typeof item?.token !== 'string' || typeof item.logprob !== 'number') return undefined;
  const { token, logprob } = item;
  const bytes = Array.isArray(item.bytes)
    ? item.bytes.filter((byte): byte is number => typeof byte === 'number')
    : undefined;
  return bytes === undefined ? { token, logprob } : { token, logprob, bytes };
}

/**
 * A part as an element of `content_blocks`, the form in which clients beyond the OpenAI wire get thinking with its
 * signatures, cited text and provider-run tools; undefined for parts with members of their own (calls, audio, images).
 * `text` replaces the part's own in the first event of a stream.
 */
export function contentBlock(part: ChatPart): JsonObject | undefined {
  switch (part.type) {
    case 'text': {
      const block: JsonObject = { type: 'text', text: part.text };
      if (part.citations !== undefined) block.citations = part.citations.map(blockCitation);
      if (part.signature !== undefined) block.signature = part.signature;
      return block;
    }
    case 'reasoning':
      if (part.redacted !== undefined) return { type: 'redacted_thinking', data: part.redacted };
      return part.signature === undefined
        ? { type: 'thinking', thinking: part.text }
        : { type: 'thinking', thinking: part.text, signature: part.signature };
    case 'provider-tool': {
      if (part.dialect === 'anthropic-messages') return part.value;
      const { dialect, phase, id, name, value } = part;
      return { type: 'provider_tool', dialect, phase, id, name, value };
    }
    default:
      return undefined;
  }
}

/** A citation within such a block: in its own wire's form, else in general members. */
export function blockCitation(citation: Citation): JsonObject {
  if (citation.raw?.dialect === 'anthropic-messages') return citation.raw.value;
  const { kind, url, title, quote, document } = citation;
  const block: JsonObject = { type: kind };
  if (url !== undefined) block.url = url;
  if (title !== undefined) block.title = title;
  if (quote !== undefined) block.cited_text = quote;
  if (document !== undefined) block.document_index = document;
  return block;
}

/** The `annotations` of a message or a delta: OpenAI's form, and that of hosts that write the members flat. */
export function decodeAnnotations(value: unknown): readonly Citation[] | undefined {
  const citations: Citation[] = [];
  for (const item of asArray(value)) {
    const annotation = asObject(item);
    if (annotation === undefined) continue;
    const members = asObject(annotation.url_citation) ?? asObject(annotation.file_citation) ?? annotation;
    const url = asText(members.url);
    const fileId = asText(members.file_id);
    if (url === undefined && fileId === undefined) continue;
    citations.push(
      given<Citation>({
        kind: url === undefined ? 'file' : 'url',
        url,
        title: asText(members.title) ?? asText(members.filename),
        quote: asText(members.content),
        start: position(members.start_index),
        end: position(members.end_index),
        fileId,
        raw: { dialect: 'openai-chat', value: annotation },
      }),
    );
  }
  return citations.length === 0 ? undefined : citations;
}

/**
 * A citation as an element of `annotations`; undefined without a URL, which the form requires. `offset` is the start of
 * the part's text within the message's content, `end` the end within the part: a citation without a position covers the
 * whole part.
 */
export function encodeAnnotation(citation: Citation, offset: number, end: number): JsonObject | undefined {
  if (citation.raw?.dialect === 'openai-chat' && offset === 0) return citation.raw.value;
  if (citation.url === undefined) return undefined;
  return {
    type: 'url_citation',
    url_citation: {
      url: citation.url,
      title: citation.title ?? '',
      start_index: offset + (citation.start ?? citation.end ?? 0),
      end_index: offset + (citation.end ?? end),
      ...(citation.quote !== undefined && { content: citation.quote }),
    },
  };
}

function position(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 ? value : undefined;
}
