import type { JsonObject } from '../../../core/dialects/canonical/chat-part.ts';
import { asArray, asObject, asText } from '../json-reading.ts';

/** The schema that a reference within the same document names (`#`, `#/$defs/Node`); undefined for any other. */
export function resolveReference(reference: string, root: JsonObject): JsonObject | undefined {
  if (!reference.startsWith('#')) return undefined;
  let value: unknown = root;
  for (const segment of reference.slice(1).split('/').slice(1)) {
    const name = decodePointer(segment);
    if (Array.isArray(value)) value = (value as unknown[])[Number(name)];
    else {
      const object = asObject(value);
      value = object !== undefined && Object.hasOwn(object, name) ? object[name] : undefined;
    }
  }
  return asObject(value);
}

/** One schema that says what all of `allOf` and its own keywords say, as far as keywords do not contradict one another. */
export function joinAllOf(schema: JsonObject, root: JsonObject): JsonObject {
  const { allOf, ...own } = schema;
  let joined: JsonObject = {};
  for (const value of asArray(allOf)) {
    const part = asObject(value);
    if (part === undefined) continue;
    const reference = asText(part.$ref);
    joined = join(joined, (reference === undefined ? part : resolveReference(reference, root)) ?? {});
  }
  return join(joined, own);
}

function join(first: JsonObject, second: JsonObject): JsonObject {
  const joined: JsonObject = { ...first, ...second };
  if (first.properties !== undefined && second.properties !== undefined)
    joined.properties = { ...asObject(first.properties), ...asObject(second.properties) };
  if (first.required !== undefined && second.required !== undefined)
    joined.required = [...new Set([...asArray(first.required), ...asArray(second.required)])];
  return joined;
}

function decodePointer(segment: string): string {
  let name = segment;
  try {
    name = decodeURIComponent(segment);
  } catch {
    // A percent sign that escapes nothing stands for itself.
  }
  return name.replaceAll('~1', '/').replaceAll('~0', '~');
}
