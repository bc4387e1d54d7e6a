import { didYouMean, listWords, quoted } from '../base/did-you-mean.ts';

/** A violation in a value, before its place in the configuration is known. */
export interface Issue {
  /** JSON pointer into the value; for a missing or unknown key, the pointer of that key. */
  readonly path: string;
  /** Predicate without the name of the value: `expected a whole number, found "x"`. */
  readonly message: string;
  /** Whether the key or the value is at fault. */
  readonly part: 'key' | 'value';
  /** The violated JSON Schema keyword; `spelling` for one key in two spellings. */
  readonly keyword: string;
  /** Probable correction of an unknown key. */
  readonly suggestion?: string;
  /** For a missing key: the pointers of all keys any one of which suffices. */
  readonly missing?: readonly string[];
}

/** Replacement for a value that must not be quoted; undefined when it may be. */
export type Hide = (path: string, value: unknown) => string | undefined;

/**
 * Issue of an unknown key, with its probable correction. `present` are the keys of the object: they are no candidates.
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
