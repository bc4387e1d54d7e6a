import { GatewayError } from '../errors/gateway-error.ts';
import type { JsonValue } from './context.ts';

/** The parsed body, for whoever changes it. Throws `invalid_json` when there is none. */
export function requireJson(json: JsonValue | undefined): JsonValue {
  if (json !== undefined) return json;
  throw new GatewayError('invalid_json', 'The request body is no valid JSON. Send a JSON object.');
}
