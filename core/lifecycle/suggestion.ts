import { didYouMean } from '../base/did-you-mean.ts';

/** `; did you mean "auth"?`, or nothing when no candidate is close. For the middle or end of a message. */
export function suggestion(word: string, candidates: Iterable<string>): string {
  const close = didYouMean(word, candidates);
  return close === undefined ? '' : `; did you mean "${close}"?`;
}
