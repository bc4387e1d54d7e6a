import crypto from 'node:crypto';

/** Concatenates the chunks. A single chunk is not copied. */
export function joinChunks(chunks: readonly Buffer[]): Buffer {
  return chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
}

/** SHA-256 of a text as UTF-8. `crypto.hash` costs half of `createHash`, but not every supported runtime has it. */
export function sha256(text: string, encoding: 'base64' | 'base64url' | 'hex'): string {
  return typeof crypto.hash === 'function'
    ? crypto.hash('sha256', text, encoding)
    : crypto.createHash('sha256').update(text).digest(encoding);
}

/** The bytes without a UTF-8 character that their end cuts in two. */
export function wholeCharacters(bytes: Buffer): Buffer {
  for (let back = 1; back <= 3 && back <= bytes.length; back++) {
    const byte = bytes[bytes.length - back] as number;
    if ((byte & 0xc0) === 0x80) continue;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > back ? bytes.subarray(0, bytes.length - back) : bytes;
  }
  return bytes;
}

/** At most `length` UTF-16 units, and no half of a surrogate pair at the end. */
export function clip(text: string, length: number): string {
  if (text.length <= length) return text;
  const last = text.charCodeAt(length - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? length - 1 : length);
}

/** Compares in a time that does not tell where the texts differ. */
export function isEqual(one: string, other: string): boolean {
  const [left, right] = [Buffer.from(one), Buffer.from(other)];
  return left.length === right.length && crypto.timingSafeEqual(left, right);
}

/** Whether stores accept this text: no NUL and no unpaired surrogate. */
export function isStorable(text: string): boolean {
  return !text.includes('\0') && !/\p{Surrogate}/u.test(text);
}

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
