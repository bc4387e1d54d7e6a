import type { ChatAnswer, Finish, ProviderError } from '../../../core/dialects/canonical/chat-answer.ts';
import type { DecodeContext } from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatPart, Extras } from '../../../core/dialects/canonical/chat-part.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { asArray, asObject, asText, asUnixTime, type JsonObject, parseExactObject } from '../json-reading.ts';
import { decodeOpenAiUsage, openAiErrorMessage, openAiStreamError } from '../openai-shapes.ts';
import { given, unknownMembers } from '../request-members.ts';
import { attachSignature, decodeLogprobs, isProviderRun, partsOfItem, providerItem } from './output-parts.ts';
import type { AnswerFacts, AnswerTextPlace } from '../../../core/dialects/dialect.ts';
import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import type { Usage } from '../../../core/dialects/usage.ts';
import { type EventReader, watch, type Watch } from '../frame-scanner.ts';

/** HTTP status by error code of a failed response that only this wire has; codes of pictures are caller errors, too. */
const statuses: Readonly<Record<string, number>> = {
  invalid_prompt: 400,
  bio_policy: 400,
  data_residency_mismatch: 400,
  server_is_overloaded: 503,
  slow_down: 503,
  vector_store_timeout: 504,
};

const unsaid: ProviderError = {
  status: 502,
  message: 'The provider reported an error without saying which.',
  type: 'upstream_error',
};

/** The error of an `error` event: `{error: {…}}`, or its members in the event itself. */
export function eventError(event: JsonObject): ProviderError {
  return withStatus(openAiStreamError(event, 'error') ?? unsaid);
}

/** The error of a failed response. */
export function responseError(response: JsonObject): ProviderError {
  return withStatus(openAiStreamError({ error: response.error }) ?? unsaid);
}

function withStatus(error: ProviderError): ProviderError {
  const { code = '', type, ...others } = error;
  const said = code === '' ? {} : { code };
  const kind = type === undefined || type === 'error' ? {} : { type };
  const known = code.includes('image') && code !== '' ? 400 : statuses[code];
  return {
    ...others,
    ...kind,
    ...said,
    status: error.status === 502 && known !== undefined ? known : error.status,
  };
}

/** Members that cause a frame to be parsed after the first token. */
export const watchedMembers: readonly Watch[] = [
  watch('usage', 'object'),
  watch('error', 'anything but null'),
  // The event that ends a stream carries the whole response; it may lack the usage.
  watch('response', 'object'),
];

export const finalEvents: ReadonlySet<unknown> = new Set([
  'response.completed',
  'response.incomplete',
  'response.failed',
]);

/** Facts of a response object, complete or from a stream event. */
export function responseFacts(response: JsonObject): AnswerFacts {
  const facts: AnswerFacts = {};
  const usage = decodeOpenAiUsage(response.usage);
  if (usage !== undefined) facts.usage = usage;
  const model = asText(response.model);
  if (model !== undefined) facts.model = model;
  const status = asText(response.status);
  if (status !== undefined && status !== 'in_progress' && status !== 'queued') {
    facts.finishReason = asText(asObject(response.incomplete_details)?.reason) ?? status;
  }
  const errorMessage = openAiErrorMessage(response);
  if (errorMessage !== undefined) facts.errorMessage = errorMessage;
  return facts;
}

/** Collects usage, model, finish and errors from the events of a Responses stream. */
export class ResponsesStreamReader implements EventReader {
  readonly facts: AnswerFacts = {};
  ended = false;

  read(json: JsonObject, event: string): boolean {
    const type = asText(json.type) ?? event;
    const response = asObject(json.response);
    if (response !== undefined) Object.assign(this.facts, responseFacts(response));
    const errorMessage = openAiErrorMessage(json, event);
    if (errorMessage !== undefined) this.facts.errorMessage = errorMessage;
    if (finalEvents.has(type)) this.ended = true;
    return type.endsWith('.delta') && asText(json.delta) !== undefined;
  }
}

type Path = AnswerTextPlace['path'];

/** The generated texts of a complete response. */
export function decodeAnswerTexts(_endpoint: EndpointId, answer: unknown): readonly AnswerTextPlace[] {
  let calls = 0;
  return asArray(asObject(answer)?.output).flatMap((value, i) => {
    const item = asObject(value) ?? {};
    const path = ['output', i];
    const member = callMembers[asText(item.type) ?? ''];
    if (member === undefined) return itemTexts(item, path);
    const { name, [member]: text } = item;
    if (typeof text !== 'string') return [];
    return [
      {
        type: 'tool-arguments' as const,
        choice: 0,
        call: calls++,
        text,
        path: [...path, member],
        ...(typeof name === 'string' ? { name } : {}),
        beside: [],
      },
    ];
  });
}

const callMembers: Readonly<Record<string, string>> = {
  function_call: 'arguments',
  custom_tool_call: 'input',
};

/** The summary of a thought precedes the thought. */
function itemTexts(item: JsonObject, path: Path): readonly AnswerTextPlace[] {
  // The encrypted content of a thought holds the thought as well.
  const proof = { path: [...path, 'encrypted_content'], value: null } as const;
  const proofs = typeof item.encrypted_content === 'string' ? [proof] : [];
  return ['summary', 'content'].flatMap((list) =>
    asArray(item[list]).flatMap((value, i): readonly AnswerTextPlace[] => {
      const part = asObject(value) ?? {};
      const at = [...path, list, i];
      const member = part.type === 'refusal' ? 'refusal' : 'text';
      const text = part[member];
      if (typeof text !== 'string') return [];
      const isThought = part.type === 'summary_text' || part.type === 'reasoning_text';
      const beside = ['annotations', 'logprobs']
        .filter((name) => Array.isArray(part[name]))
        .map((name) => ({ path: [...at, name], value: [] }));
      return [
        {
          type: isThought ? 'reasoning' : 'text',
          choice: 0,
          text,
          path: [...at, member],
          beside: [...beside, ...proofs],
        },
      ];
    }),
  );
}

/** Members of a response that the canonical answer has, or that only repeat the request. */
const knownMembers: ReadonlySet<string> = new Set(
  `id object created_at completed_at status error incomplete_details model output output_text usage background conversation
  instructions max_output_tokens max_tool_calls parallel_tool_calls previous_response_id prompt prompt_cache_key
  prompt_cache_options prompt_cache_retention reasoning safety_identifier service_tier store temperature text tool_choice
  tools top_logprobs top_p truncation user metadata frequency_penalty presence_penalty`.split(/\s+/),
);

/** Finish of a response. `calls`: it holds a call for the client. */
export function finishOf(response: JsonObject, calls: boolean): Finish {
  const status = asText(response.status) ?? 'completed';
  const reason = asText(asObject(response.incomplete_details)?.reason);
  const raw = reason ?? status;
  switch (reason ?? status) {
    case 'completed':
      return { reason: calls ? 'tool-calls' : 'stop', raw };
    case 'max_output_tokens':
    case 'max_tokens':
      return { reason: 'length', raw };
    case 'content_filter':
      return { reason: 'content-filter', raw };
    case 'pause_turn':
      return { reason: 'pause', raw };
    case 'failed':
    case 'cancelled':
      return { reason: 'error', raw };
    default:
      return { reason: 'unknown', raw };
  }
}

/** Other members of a response (filter results, billing …). */
export function responseExtras(response: JsonObject): Extras | undefined {
  const unknown = unknownMembers(response, knownMembers);
  return unknown === undefined ? undefined : { 'openai-responses': unknown };
}

/** The tier that served the request; `auto` only repeats the request. */
export function serviceTier(response: JsonObject): string | undefined {
  const tier = asText(response.service_tier);
  return tier === 'auto' ? undefined : tier;
}

/** A complete response. Throws `upstream_invalid` for anything else, and for a failed response. */
export function decodeAnswer(body: Buffer, context: DecodeContext): ChatAnswer {
  const response = parseExactObject(body.toString('utf8'));
  if (response === undefined || !Array.isArray(response.output)) throw noResponseError(response);
  if (response.status === 'failed') {
    throw new GatewayError('upstream_invalid', `The provider failed: ${responseError(response).message}`, {
      source: 'provider',
    });
  }
  const parts: ChatPart[] = [];
  for (const value of response.output) addItem(parts, asObject(value) ?? {}, response, context);
  const calls = parts.some(({ type }) => type === 'tool-call');
  return given<ChatAnswer>({
    id: asText(response.id) ?? '',
    model: asText(response.model) ?? '',
    createdAt: asUnixTime(response.created_at),
    choices: [
      given<ChatAnswer['choices'][number]>({
        index: 0,
        parts,
        finish: finishOf(response, calls),
        logprobs: logprobsOf(response),
      }),
    ],
    usage: decodeOpenAiUsage(response.usage),
    serviceTier: serviceTier(response),
    extras: responseExtras(response),
  });
}

function addItem(parts: ChatPart[], item: JsonObject, response: JsonObject, context: DecodeContext): void {
  if (isProviderRun(item, response.tools)) {
    parts.push(providerItem(item));
    return;
  }
  const found = partsOfItem(item, context.newId);
  parts.push(...found.parts);
  if (found.carried !== undefined) attachSignature(parts, found.carried);
}

function logprobsOf(response: JsonObject): ReturnType<typeof decodeLogprobs> {
  const all = asArray(response.output)
    .flatMap((item) => asArray(asObject(item)?.content))
    .flatMap((content) => decodeLogprobs(asObject(content)?.logprobs) ?? []);
  return all.length === 0 ? undefined : all;
}

function noResponseError(body: JsonObject | undefined): GatewayError {
  const error = body?.error === undefined || body.error === null ? undefined : responseError(body).message;
  return new GatewayError(
    'upstream_invalid',
    error === undefined
      ? 'The provider answered with something that is no response object: its "output" is missing.'
      : `The provider failed: ${error}`,
    { source: 'provider' },
  );
}

/** A usage in the form of the Responses wire. */
export function encodeResponsesUsage(usage: Usage): JsonObject {
  return {
    input_tokens: usage.promptTokens,
    input_tokens_details: {
      cached_tokens: usage.cachedTokens,
      cache_write_tokens: usage.cacheWriteTokens,
      ...(usage.inputAudioTokens > 0 && { audio_tokens: usage.inputAudioTokens }),
    },
    output_tokens: usage.completionTokens,
    output_tokens_details: {
      reasoning_tokens: usage.reasoningTokens,
      ...(usage.outputAudioTokens > 0 && { audio_tokens: usage.outputAudioTokens }),
    },
    total_tokens: usage.totalTokens,
  };
}
