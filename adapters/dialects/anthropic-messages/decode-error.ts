import {
  unreadableProviderError,
  type ProviderError,
} from '../../../core/dialects/canonical/provider-error.ts';
import { asArray, asObject, asText, type JsonObject } from '../json-reading.ts';
import { anthropicErrorMessage } from './message-facts.ts';

/** The status that an error type of an event stands for. */
const statuses: Readonly<Record<string, number>> = {
  invalid_request_error: 400,
  authentication_error: 401,
  billing_error: 402,
  permission_error: 403,
  not_found_error: 404,
  request_too_large: 413,
  rate_limit_error: 429,
  api_error: 500,
  timeout_error: 504,
  overloaded_error: 529,
};

/** The error of an answer with an error status, in Anthropic's shape or in that of a host before it (Google's). */
export function decodeError(status: number, body: Buffer): ProviderError {
  const json = parsed(body);
  return (json === undefined ? undefined : errorOf(json, status)) ?? unreadableProviderError(status, body);
}

/** The error that an event of a stream reports; `data` may be no JSON. */
export function streamError(json: JsonObject | undefined, data: string): ProviderError {
  if (json === undefined)
    return { status: 502, message: data.trim() === '' ? 'unknown error' : data.slice(0, 500) };
  const type = asText(asObject(json.error)?.type) ?? '';
  const status = Object.hasOwn(statuses, type) ? (statuses[type] as number) : 502;
  return errorOf(json, status) ?? { status, message: 'unknown error' };
}

function errorOf(json: JsonObject, status: number): ProviderError | undefined {
  const message = anthropicErrorMessage(json, asText(json.message) === undefined ? '' : 'error');
  if (message === undefined) return undefined;
  const error = asObject(json.error) ?? json;
  const type = asText(error.type) ?? asText(error.status);
  const code = typeof error.code === 'number' ? String(error.code) : asText(error.code);
  const param = asText(error.param);
  return {
    status,
    message,
    ...(type === undefined || type === 'error' ? {} : { type }),
    ...(code === undefined ? {} : { code }),
    ...(param === undefined ? {} : { param }),
  };
}

/** The error object; some hosts put it into an array. */
function parsed(body: Buffer): JsonObject | undefined {
  try {
    const json: unknown = JSON.parse(body.toString('utf8'));
    return asObject(json) ?? asObject(asArray(json)[0]);
  } catch {
    return undefined;
  }
}
