/**
 * Headers as a flat list `[name, value, name, value, …]`, in the order and case in which they were received.
 * This is what Node reads and writes without a copy, and it keeps repeated headers apart.
 */
export type HeaderList = readonly string[];

/** The same names and values in the same order. */
export function isSameList(one: HeaderList, other: HeaderList): boolean {
  return one.length === other.length && one.every((item, index) => item === other[index]);
}

/** The first value of a header, or undefined. `name` is lower-case. */
export function headerValue(headers: HeaderList, name: string): string | undefined {
  for (let i = 0; i < headers.length; i += 2) {
    const candidate = headers[i] as string;
    if (candidate.length === name.length && (candidate === name || candidate.toLowerCase() === name)) {
      return headers[i + 1];
    }
  }
  return undefined;
}

/** The list without every occurrence of one header (`name` in lower case). */
export function withoutHeader(headers: HeaderList, name: string): string[] {
  const kept: string[] = [];
  for (let i = 0; i < headers.length; i += 2) {
    if ((headers[i] as string).toLowerCase() !== name)
      kept.push(headers[i] as string, headers[i + 1] as string);
  }
  return kept;
}
