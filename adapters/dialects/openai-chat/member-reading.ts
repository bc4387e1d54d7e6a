import type { CacheMarker } from '../../../core/dialects/canonical/chat-part.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { asObject, asText, type JsonObject } from '../json-reading.ts';
import { describeValue } from '../request-issue.ts';

/** The refusal of a request member: what it must be, and what was found. */
export function unreadable(param: string, rule: string, found: unknown): GatewayError {
  return new GatewayError('invalid_request', `${param} must ${rule}; found ${describeValue(found)}.`, {
    param,
  });
}

/** A number of the request. Absent and null are undefined; anything else throws `invalid_request`. */
export function numberMember(body: JsonObject, name: string): number | undefined {
  const value = body[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value === 'bigint') return Number(value);
  if (typeof value !== 'number') throw unreadable(name, 'be a number', value);
  return value;
}

/** A truth value of the request, by the same rules. */
export function booleanMember(body: JsonObject, name: string): boolean | undefined {
  const value = body[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'boolean') throw unreadable(name, 'be true or false', value);
  return value;
}

/** A text of the request, by the same rules. */
export function textMember(body: JsonObject, name: string): string | undefined {
  const value = body[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'string') throw unreadable(name, 'be a string', value);
  return value;
}

/** A string or a list of strings as a list, by the same rules. */
export function textsMember(body: JsonObject, name: string): readonly string[] | undefined {
  const value = body[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value === 'string') return [value];
  if (!Array.isArray(value) || !value.every((item): item is string => typeof item === 'string')) {
    throw unreadable(name, 'be a string or an array of strings', value);
  }
  return value;
}

/** A prompt cache marker (`cache_control: { type: 'ephemeral', ttl }`) as gateways and hosts of Anthropic models take it. */
export function cacheMember(holder: JsonObject): CacheMarker | undefined {
  const marker = asObject(holder.cache_control);
  if (marker === undefined) return undefined;
  const ttl = asText(marker.ttl);
  return ttl === undefined ? {} : { ttl };
}

/** The members that are not named in `known`; undefined when there are none. */
export function unknownMembers(holder: JsonObject, known: ReadonlySet<string>): JsonObject | undefined {
  let unknown: JsonObject | undefined;
  for (const name in holder) {
    if (known.has(name) || name === '__proto__') continue;
    const value = holder[name];
    if (value === null || value === undefined) continue;
    unknown ??= {};
    unknown[name] = value;
  }
  return unknown;
}

/** Without the members that are undefined. */
export function given<T extends object>(value: { [K in keyof T]: T[K] | undefined }): T {
  const said = { ...value };
  for (const name in said) if (said[name] === undefined) delete said[name];
  return said as T;
}
