import type { DialectName } from '../../../core/dialects/endpoint.ts';
import type { CacheMarker, Extras } from '../../../core/dialects/canonical/chat-part.ts';
import { asObject, asText, type JsonObject } from '../json-reading.ts';

/** The name of this wire, under which its own members travel. */
export const dialectName = 'anthropic-messages' satisfies DialectName;

/** The members that only this wire knows, of any value that may carry extras. */
export function ownExtras(value: { readonly extras?: Extras | undefined }): JsonObject {
  return value.extras?.[dialectName] ?? {};
}

/** What a block, tool or message says beside the members of the canonical form; to be spread into its part. */
export interface Common {
  readonly cache?: CacheMarker;
  readonly extras?: Extras;
}

/**
 * The cache marker of a block and those of its members that `known` does not name. Null says nothing and is left out;
 * a marker with further members (`scope`) is kept in full, too.
 */
export function commonOf(block: JsonObject, known: ReadonlySet<string>): Common {
  const rest: JsonObject = {};
  for (const [name, value] of Object.entries(block)) {
    if (!known.has(name) && name !== 'cache_control' && value !== null && name !== '__proto__') {
      rest[name] = value;
    }
  }
  const control = asObject(block.cache_control);
  const ttl = asText(control?.ttl);
  if (control !== undefined && Object.keys(control).some((name) => name !== 'type' && name !== 'ttl')) {
    rest.cache_control = control;
  }
  const cache = control === undefined ? undefined : ttl === undefined ? {} : { ttl };
  return {
    ...(cache === undefined ? {} : { cache }),
    ...(Object.keys(rest).length === 0 ? {} : { extras: { [dialectName]: rest } }),
  };
}

/** Puts the cache marker and this wire's own members into a block; the latter win. */
export function addCommon(
  block: JsonObject,
  part: { readonly cache?: CacheMarker | undefined; readonly extras?: Extras | undefined },
): JsonObject {
  if (part.cache !== undefined) {
    const { ttl } = part.cache;
    block.cache_control = ttl === undefined ? { type: 'ephemeral' } : { type: 'ephemeral', ttl };
  }
  return Object.assign(block, ownExtras(part));
}
