import { didYouMean, listWords, quoted } from '../base/did-you-mean.ts';
import type { Issue } from './issue.ts';

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
