/**
 * Spellings that existing clients and their documentation use for a key that we know under another name, in
 * snake_case. The one table of aliases; it holds for the gateway's own keys and for plugin options.
 */
const variants: ReadonlyMap<string, string> = new Map([
  ['strict_openai_compliance', 'strict_open_ai_compliance'],
  ['use_retry_after_header', 'use_retry_after_headers'],
]);

const plainStyle = /^[a-z][A-Za-z0-9_]*$/;

/**
 * What all spellings of one key have in common: `maxSizeBytes`, `max_size_bytes` and known variants give the
 * same text. A key in another style (`X-Header`, `a.b`) is left as it is.
 */
export function spellingOf(key: string): string {
  if (!plainStyle.test(key)) return key;
  const snake = key
    .replace(/([A-Z]+)([A-Z][a-z])/g, '$1_$2')
    .replace(/([a-z0-9])([A-Z])/g, '$1_$2')
    .toLowerCase();
  return variants.get(snake) ?? snake;
}

/** Spellings of the keys of schemas: the same ones are looked for again and again. */
const spellingsOfKnown = new Map<string, string>();
const maxRemembered = 10_000;

function spellingOfKnown(key: string): string {
  const present = spellingsOfKnown.get(key);
  if (present !== undefined) return present;
  const spelling = spellingOf(key);
  if (spellingsOfKnown.size < maxRemembered) spellingsOfKnown.set(key, spelling);
  return spelling;
}

/** The key of `known` that was meant: itself, or the one with the same spelling in another style. */
export function knownKey(written: string, known: ReadonlySet<string>): string | undefined {
  if (known.has(written)) return written;
  const spelling = spellingOf(written);
  for (const key of known) if (spellingOfKnown(key) === spelling) return key;
  return undefined;
}
