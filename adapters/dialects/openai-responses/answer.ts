import type { ProviderError } from '../../../core/dialects/canonical/chat-answer.ts';
import { asObject, asText, type JsonObject } from '../json-reading.ts';
import { decodeOpenAiUsage, openAiErrorMessage, openAiStreamError } from '../openai-shapes.ts';
import type { AnswerFacts } from '../../../core/dialects/dialect.ts';
import type { Usage } from '../../../core/dialects/usage.ts';

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
