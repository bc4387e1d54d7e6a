import {
  type ClientCall,
  type EncodedRequest,
  type EncodeReport,
  reportForeignExtras,
} from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatMessage, ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import { asObject, type JsonObject, stringifyExact } from '../json-reading.ts';
import { addGiven, addSampling, applyQuirks } from '../openai-chat/encode-request.ts';
import { reportUnsayable, type Setting } from '../request-settings.ts';
import { mergeExtras } from '../../../core/dialects/canonical/collect-answer.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { decodeSampling, providerOptions } from '../openai-chat/decode-request.ts';
import { given, numberMember, textMember, unknownMembers, unreadable } from '../request-members.ts';
import type { ChatPart } from '../../../core/dialects/canonical/chat-part.ts';

const labels: Readonly<Record<ChatMessage['role'], string>> = {
  system: 'System',
  developer: 'System',
  user: 'User',
  assistant: 'Assistant',
  tool: 'Tool',
};

/**
 * A conversation as one prompt: a single text of a user is the prompt itself, anything longer is told as labelled turns
 * (reported as emulated) that end where the assistant is to speak. Parts other than text are reported as dropped.
 */
function encodePrompt(messages: readonly ChatMessage[], report: EncodeReport): string {
  const texts = messages.map((message, i) => textOf(message.parts, `messages[${i}]`, report));
  messages.forEach(({ extras, name }, i) => {
    reportForeignExtras(extras, ['openai-completions'], report, `messages[${i}].`);
    if (name !== undefined) report.drop(`messages[${i}].name`);
  });
  if (messages.length === 1 && messages[0]?.role === 'user') return texts[0] as string;
  report.emulate('messages');
  const turns = messages.map(({ role }, i) => `${labels[role]}: ${texts[i] as string}`);
  return [...turns, 'Assistant:'].join('\n\n');
}

function textOf(parts: readonly ChatPart[], place: string, report: EncodeReport): string {
  const texts: string[] = [];
  parts.forEach((part, i) => {
    const where = `${place}.content[${i}]`;
    if (part.type === 'text' || part.type === 'refusal') texts.push(part.text);
    else if (part.type === 'tool-result') texts.push(textOf(part.content, where, report));
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

/** A text completions request as the host wants it. */
export function encodeRequest(request: ChatRequest, host: HostFacts, report: EncodeReport): EncodedRequest {
  const body: JsonObject = { model: host.model, prompt: encodePrompt(request.messages, report) };
  addSampling(body, request, host, report);
  // The wire wants a number; the most likely token alone is the least that says "yes".
  const logprobs = request.logprobs === true ? (request.topLogprobs ?? 0) : undefined;
  addGiven(body, { logprobs, user: request.user });
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
      Object.assign(applyQuirks(body, host, report), request.extras?.['openai-completions']),
    ),
  };
}

/** Settings of a conversation that a prompt has no words for. */
const unsayable: readonly Setting[] = [
  ...(['tool_choice', 'parallel_tool_calls', 'response_format', 'reasoning_effort', 'verbosity'] as const),
  ...(['safety_identifier', 'prompt_cache_key', 'metadata', 'service_tier', 'store', 'modalities'] as const),
  'audio',
];
