import { unreadableProviderError, type ProviderError } from '../../../core/dialects/canonical/chat-answer.ts';
import { asCount, asObject, asText, parseObject, type JsonObject } from '../json-reading.ts';

/** Decodes errors of answers and of streams. */
export const bedrockErrors = { decode: decodeBedrockError, ofStream: streamException };

/** HTTP status by exception name, in lower case without its suffix. */
const statusByException: Readonly<Record<string, number>> = {
  validation: 400,
  servicequotaexceeded: 400,
  conflict: 400,
  unrecognizedclient: 403,
  accessdenied: 403,
  resourcenotfound: 404,
  modeltimeout: 408,
  modelerror: 424,
  modelstreamerror: 424,
  throttling: 429,
  modelnotready: 429,
  internalserver: 500,
  internalfailure: 500,
  serviceunavailable: 503,
};

/** An error answer: `{message}`, `{Message}`, `{__type, …}`, or a body that is not JSON. */
function decodeBedrockError(status: number, body: Buffer): ProviderError {
  const error = parseObject(body.toString('utf8'));
  const output = asObject(error?.Output);
  const type = typeOf(error) ?? typeOf(output);
  const message = messageOf(error) ?? messageOf(output) ?? type;
  if (message === undefined) return unreadableProviderError(status, body);
  return { status, message, ...(type === undefined ? {} : { type }) };
}

/** An exception or error message inside a stream. The model's own status wins when it is present. */
function streamException(name: string, told: JsonObject | undefined): ProviderError {
  const kind = name.toLowerCase().replace(/exception$/, '');
  const own = asCount(told?.originalStatusCode);
  const status = own !== undefined && own >= 400 && own < 600 ? own : (statusByException[kind] ?? 502);
  const type = name === '' ? typeOf(told) : name;
  const message = messageOf(told) ?? `The provider's stream ended in ${type ?? 'an error'}.`;
  const original = asText(told?.originalMessage);
  return {
    status,
    message: original === undefined || original === message ? message : `${message} ${original}`,
    ...(type === undefined ? {} : { type }),
  };
}

function messageOf(error: JsonObject | undefined): string | undefined {
  return (
    asText(error?.message) ??
    asText(error?.Message) ??
    asText(error?.errorMessage) ??
    asText(error?.error) ??
    asText(asObject(error?.error)?.message)
  );
}

/** `com.amazon.coral.service#UnknownOperationException:http://…` is an `UnknownOperationException`. */
function typeOf(error: JsonObject | undefined): string | undefined {
  const name = asText(error?.__type) ?? asText(error?.code);
  return name === undefined ? undefined : asText(name.replace(/^.*#/, '').replace(/:.*$/, ''));
}
