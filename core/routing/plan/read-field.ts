import type { FieldPath } from './field-path.ts';

/** What is known of a request when its plan is made. */
export interface RequestFields {
  readonly metadata: Readonly<Record<string, string>>;
  /** The parsed body; undefined for one that is empty, no JSON or not read. */
  readonly params: unknown;
  readonly url: { readonly pathname: string };
  readonly traceId: string;
  /** Empty for a request without one. */
  readonly apiKeyId: string;
}

/**
 * The value at a path of `parseFieldPath`, undefined when there is none. Own members alone count
 * (`params.constructor` is nothing), and lists are read by index alone. Never throws.
 */
export function readField(sources: RequestFields, path: FieldPath): unknown {
  switch (path[0]) {
    case 'metadata':
      return memberAt(sources.metadata, path[1]);
    case 'params': {
      let value = sources.params;
      for (let depth = 1; depth < path.length && value !== undefined; depth++)
        value = memberAt(value, path[depth]);
      return value;
    }
    case 'url':
      return memberAt(sources.url, path[1]);
    case 'trace_id':
      return sources.traceId === '' ? undefined : sources.traceId;
    case 'api_key':
      return sources.apiKeyId === '' ? undefined : sources.apiKeyId;
    default:
      return undefined;
  }
}

function memberAt(value: unknown, key: string | number | undefined): unknown {
  if (typeof value !== 'object' || value === null || key === undefined) return undefined;
  if (Array.isArray(value)) return typeof key === 'number' ? (value[key] as unknown) : undefined;
  if (typeof key === 'number' || !Object.hasOwn(value, key)) return undefined;
  return (value as Readonly<Record<string, unknown>>)[key];
}
