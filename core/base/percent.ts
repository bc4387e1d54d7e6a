/** The text without percent-encoding; unchanged where its encoding is invalid. */
export function decodePercent(text: string): string {
  if (!text.includes('%')) return text;
  return percentDecoded(text) ?? text;
}

/** The text without percent-encoding; undefined where its encoding is invalid. */
export function percentDecoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

/** One segment of a path. A colon is allowed; a dot segment is not, because it would lead to another resource. */
export function encodeSegment(segment: string): string {
  if (segment === '.' || segment === '..') return segment.replaceAll('.', '%252E');
  return encodeURIComponent(segment).replaceAll('%3A', ':').replaceAll('%40', '@');
}
