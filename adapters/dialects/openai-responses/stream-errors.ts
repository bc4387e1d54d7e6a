import type { ProviderError } from '../../../core/dialects/canonical/provider-error.ts';
import type { JsonObject } from '../json-reading.ts';
import { openAiStreamError } from '../openai-error.ts';

/** Codes of a failed response that only this wire has, as statuses; those of pictures are the caller's fault, too. */
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

/** The error of a response that failed. */
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
