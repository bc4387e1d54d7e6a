import { didYouMean, listWords, quoted } from '../base/did-you-mean.ts';

/** Something wrong in a value, before it is known where the value stands. */
export interface Issue {
  /** JSON pointer into the value; for a missing or unknown key, the pointer of that key. */
  readonly path: string;
  /** What is wrong, without the name of the value: `expected a whole number, found "x"`. */
  readonly message: string;
  /** Whether the key or the value is at fault. */
  readonly part: 'key' | 'value';
  /** The JSON Schema keyword that was not met; `spelling` for one key in two spellings. */
  readonly keyword: string;
  /** The key that was probably meant by an unknown one. */
  readonly suggestion?: string;
  /** Of a missing key: the pointers of all keys any one of which would do. */
  readonly missing?: readonly string[];
}

/** Says what to show in place of a value that must not be quoted; undefined when it may be. */
export type Hide = (path: string, value: unknown) => string | undefined;

/**
 * The issue of a key that a schema does not know, with the key that was probably meant. `present` are the
 * keys that the object holds already: they cannot be what was meant.
 */
export function unknownKeyIssue(
  path: string,
  key: string,
  { known, present }: { known: Iterable<string>; present: ReadonlySet<string> },
): Issue {
  const names = [...known];
  const suggestion = didYouMean(
    key,
    names.filter((name) => !present.has(name)),
  );
  const remedy =
    suggestion !== undefined
      ? `did you mean ${quoted(suggestion)}?`
      : names.length > 0
        ? `known here: ${listWords(names, 'and', 24)}`
        : 'nothing can be set here';
  const issue = { path, part: 'key', keyword: 'additionalProperties' } as const;
  const message = `unknown key ${quoted(key)}; ${remedy}`;
  return suggestion === undefined ? { ...issue, message } : { ...issue, message, suggestion };
}
