/** Google's status words by HTTP status (google.rpc.Code). */
const words: Readonly<Record<number, string>> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  402: 'FAILED_PRECONDITION',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  408: 'DEADLINE_EXCEEDED',
  409: 'ABORTED',
  412: 'FAILED_PRECONDITION',
  429: 'RESOURCE_EXHAUSTED',
  446: 'FAILED_PRECONDITION',
  499: 'CANCELLED',
  500: 'INTERNAL',
  501: 'UNIMPLEMENTED',
  503: 'UNAVAILABLE',
  504: 'DEADLINE_EXCEEDED',
  529: 'UNAVAILABLE',
};

/** The HTTP status that each word stands for, where an error inside a stream names no number. */
const numbers: Readonly<Record<string, number>> = {
  INVALID_ARGUMENT: 400,
  FAILED_PRECONDITION: 400,
  OUT_OF_RANGE: 400,
  UNAUTHENTICATED: 401,
  PERMISSION_DENIED: 403,
  NOT_FOUND: 404,
  ABORTED: 409,
  ALREADY_EXISTS: 409,
  RESOURCE_EXHAUSTED: 429,
  CANCELLED: 499,
  INTERNAL: 500,
  DATA_LOSS: 500,
  UNKNOWN: 500,
  UNIMPLEMENTED: 501,
  UNAVAILABLE: 503,
  DEADLINE_EXCEEDED: 504,
};

/** The word that clients of this wire expect beside a status. */
export function wordOfStatus(status: number): string {
  return words[status] ?? (status >= 500 ? 'UNAVAILABLE' : 'INVALID_ARGUMENT');
}

/** True for one of Google's own words. */
export function isStatusWord(word: string): boolean {
  return Object.hasOwn(numbers, word);
}

/** The HTTP status of a word; undefined for any other text. */
export function statusOfWord(word: string): number | undefined {
  return Object.hasOwn(numbers, word) ? numbers[word] : undefined;
}
