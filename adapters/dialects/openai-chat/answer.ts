import type { Finish, TokenLogprob } from '../../../core/dialects/canonical/chat-answer.ts';
import type { Citation, ToolCallPart } from '../../../core/dialects/canonical/chat-part.ts';
import type { Usage } from '../../../core/dialects/usage.ts';
import { asArray, asObject, asText, type JsonObject } from '../json-reading.ts';
import { openAiUsage } from '../openai-shapes.ts';
import { requestMember } from '../request-members.ts';

/** Log probabilities, to and from the wire. */
export const chatLogprobs = { decode: decodeLogprobs, encode: encodeLogprobs };

/** Encodes parts that answers and streams share. */
export const answerPart = {
  finish: encodeFinish,
  usage: encodeUsage,
  toolCall: encodeToolCall,
  signature: signatureContent,
};

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
function encodeFinish(finish: Finish, strict: boolean, legacy: boolean): string {
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

/** The `usage` member; when not strict, also the members that Anthropic's clients read. */
function encodeUsage(usage: Usage, strict: boolean): JsonObject {
  const encoded = openAiUsage.encode(usage);
  if (strict) return encoded;
  if (usage.cachedTokens > 0) encoded.cache_read_input_tokens = usage.cachedTokens;
  if (usage.cacheWriteTokens > 0) encoded.cache_creation_input_tokens = usage.cacheWriteTokens;
  return encoded;
}

/** An element of `tool_calls`. */
function encodeToolCall(call: ToolCallPart): JsonObject {
  const { id, name, kind, signature } = call;
  const encoded: JsonObject =
    kind === 'custom'
      ? { id, type: 'custom', custom: { name, input: call.arguments } }
      : { id, type: 'function', function: { name, arguments: call.arguments } };
  if (signature !== undefined) encoded.extra_content = signatureContent(signature);
  return encoded;
}

/** Place where Google's compatibility API, and clients that follow it, keep the thought signature of a call. */
function signatureContent(signature: string): JsonObject {
  return { google: { thought_signature: signature } };
}

/** The tokens of a choice's `logprobs`; undefined when there are none. */
function decodeLogprobs(value: unknown): readonly TokenLogprob[] | undefined {
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
function encodeLogprobs(tokens: readonly TokenLogprob[] | undefined): JsonObject | null {
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
      requestMember.given<Citation>({
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

function position(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 ? value : undefined;
}
