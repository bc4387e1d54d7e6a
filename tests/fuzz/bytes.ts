/** Bytes that are nearly right, and where they are cut. */
import fc from 'fast-check';

interface Edit {
  readonly at: number;
  readonly kind: 'set' | 'insert' | 'remove' | 'repeat' | 'cut';
  readonly length: number;
  readonly bytes: Uint8Array;
}

/** Bytes that end or begin something in one framing or another. */
const telling = fc.constantFrom(
  ...[
    '\n',
    '\r',
    '\r\n',
    '\n\n',
    '\0',
    ' ',
    ':',
    ';',
    '"',
    '\\',
    '{',
    '}',
    '[',
    ']',
    ',',
    'data: ',
    'event: ',
  ],
  ...[
    'data: [DONE]\n\n',
    '\xef\xbb\xbf',
    '\xff',
    '\xc3',
    '\xed\xa0\x80',
    '0\r\n\r\n',
    '1e999',
    '\u0000\u0000\u0000\u0010',
  ],
);

const edit: fc.Arbitrary<Edit> = fc.record({
  at: fc.nat(),
  kind: fc.constantFrom('set', 'insert', 'remove', 'repeat', 'cut'),
  length: fc.oneof(fc.integer({ min: 1, max: 8 }), fc.integer({ min: 1, max: 400 })),
  bytes: fc.oneof(
    telling.map((text) => Buffer.from(text, 'latin1')),
    fc.uint8Array({ minLength: 1, maxLength: 4 }),
  ),
});

/** These bytes, as they are or with up to `most` edits. */
export function editedBytes(bytes: fc.Arbitrary<Buffer>, most = 3): fc.Arbitrary<Buffer> {
  return fc
    .tuple(bytes, fc.array(edit, { maxLength: most }))
    .map(([whole, edits]) => edits.reduce(edited, whole));
}

const longest = 256 * 1024;

function edited(bytes: Buffer, { at, kind, length, bytes: other }: Edit): Buffer {
  const from = bytes.length === 0 ? 0 : at % bytes.length;
  const to = Math.min(bytes.length, from + length);
  const before = bytes.subarray(0, from);
  switch (kind) {
    case 'set':
      return Buffer.concat([before, other, bytes.subarray(Math.min(bytes.length, from + other.length))]);
    case 'insert':
      return Buffer.concat([before, other, bytes.subarray(from)]);
    case 'remove':
      return Buffer.concat([before, bytes.subarray(to)]);
    case 'repeat':
      return bytes.length > longest
        ? bytes
        : Buffer.concat([before, bytes.subarray(from, to), bytes.subarray(from)]);
    case 'cut':
      return before;
  }
}

/** Places at which bytes are cut: a few anywhere, or every few bytes. */
export const cuts: fc.Arbitrary<readonly number[] | 'each'> = fc.oneof(
  { arbitrary: fc.array(fc.nat(), { maxLength: 6 }), weight: 5 },
  fc.constant('each' as const),
);

/** Copies of the pieces: chunks of a socket share no memory. At most 4,096 of them. */
export function piecesOf(bytes: Buffer, places: readonly number[] | 'each'): Buffer[] {
  const all =
    places === 'each'
      ? Array.from({ length: Math.min(bytes.length, 4096) }, (_, at) => at)
      : places.map((place) => (bytes.length === 0 ? 0 : place % bytes.length));
  const edges = [...new Set([0, ...all, bytes.length])].sort((a, b) => a - b);
  return edges.slice(1).map((edge, i) => Buffer.from(bytes.subarray(edges[i], edge)));
}
