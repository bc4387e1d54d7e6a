import type { ClientCall } from '../../../core/dialects/canonical/chat-codec.ts';
import type { JsonObject } from '../../../core/dialects/canonical/chat-part.ts';
import type { ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import { mergeExtras } from '../../../core/dialects/canonical/collect-answer.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { asObject } from '../json-reading.ts';
import { decodeSampling, providerOptions } from '../openai-chat/decode-request.ts';
import {
  given,
  numberMember,
  textMember,
  unknownMembers,
  unreadable,
} from '../openai-chat/member-reading.ts';

/** Members that have a place in the canonical form. */
const knownMembers: ReadonlySet<string> = new Set([
  ...['model', 'prompt', 'stream', 'stream_options', 'max_tokens', 'max_completion_tokens', 'temperature'],
  ...['top_p', 'top_k', 'frequency_penalty', 'presence_penalty', 'seed', 'stop', 'n', 'logprobs'],
  ...['logit_bias', 'user', 'provider_options'],
]);

/**
 * Reads a text completions request: the prompt is what a user says. Several prompts in one request, and prompts of token
 * numbers, are for hosts of this wire alone (`not_supported`).
 */
export function decodeRequest(call: ClientCall): ChatRequest {
  const { body } = call;
  const logprobs = numberMember(body, 'logprobs');
  return given<ChatRequest>({
    model: call.model,
    stream: call.stream,
    messages: [{ role: 'user', parts: [{ type: 'text', text: promptOf(body.prompt) }] }],
    tools: [],
    ...decodeSampling(body),
    logprobs: logprobs === undefined ? undefined : true,
    topLogprobs: logprobs,
    user: textMember(body, 'user'),
    includeUsage: asObject(body.stream_options)?.include_usage === true ? true : undefined,
    extras: mergeExtras(ownExtras(body), providerOptions(body)),
  });
}

function promptOf(prompt: unknown): string {
  if (typeof prompt === 'string') return prompt;
  if (!Array.isArray(prompt) || prompt.length === 0) {
    throw unreadable('prompt', 'be a string or an array with one string', prompt);
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

/** What changes nothing (`echo: false`, `best_of: 1`) is not kept, so that it is not reported as lost. */
function ownExtras(body: JsonObject): ChatRequest['extras'] {
  const unknown = unknownMembers(body, knownMembers);
  if (unknown === undefined) return undefined;
  if (unknown.echo === false) delete unknown.echo;
  if (unknown.best_of === 1) delete unknown.best_of;
  if (unknown.suffix === '') delete unknown.suffix;
  return Object.keys(unknown).length === 0 ? undefined : { 'openai-completions': unknown };
}
