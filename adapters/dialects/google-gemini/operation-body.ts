import type { EncodeReport } from '../../../core/dialects/canonical/encode-report.ts';
import type { JsonObject } from '../../../core/dialects/canonical/chat-part.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { asText, parseObject } from '../json-reading.ts';
import { describeValue } from '../request-issue.ts';
import { readError } from './error-shape.ts';

/** Reports every member of an operation's body that the host is not told. */
export function reportUnknown(body: JsonObject, known: readonly string[], report: EncodeReport): void {
  for (const [name, value] of Object.entries(body))
    if (value !== undefined && value !== null && name !== 'provider_options' && !known.includes(name))
      report.drop(name);
}

/** The text of a member that an operation cannot do without. Throws `invalid_request`. */
export function requireText(body: JsonObject, name: string): string {
  const text = asText(body[name]);
  if (text !== undefined) return text;
  throw new GatewayError(
    'invalid_request',
    `${name} must be a string that is not empty; found ${describeValue(body[name])}.`,
    { param: name },
  );
}

/** The JSON object that a host answered. Throws `upstream_invalid` for anything else and for an error in its place. */
export function requireAnswer(body: Buffer): JsonObject {
  const answer = parseObject(body.toString('utf8'));
  const error = readError(answer);
  if (answer !== undefined && error === undefined) return answer;
  const message = error?.message ?? 'The provider answered with something that is no JSON object.';
  throw new GatewayError('upstream_invalid', message, { source: 'provider' });
}
