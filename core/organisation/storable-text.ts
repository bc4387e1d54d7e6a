/** Whether stores take this text: one without NUL and without half a surrogate pair. */
export function isStorable(text: string): boolean {
  return !text.includes('\0') && !/\p{Surrogate}/u.test(text);
}
