import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { SseSplitter } from './sse.ts';

interface Cut {
  readonly frames: readonly string[];
  readonly fragments: readonly string[];
  readonly all: Buffer;
}

function cut(chunks: readonly Uint8Array[], maxFrameBytes?: number): Cut {
  const frames: string[] = [];
  const fragments: string[] = [];
  const all: Buffer[] = [];
  const splitter = new SseSplitter((bytes, whole) => {
    (whole ? frames : fragments).push(bytes.toString('latin1'));
    all.push(bytes);
  }, maxFrameBytes);
  for (const chunk of chunks) splitter.push(chunk);
  splitter.finish();
  return { frames, fragments, all: Buffer.concat(all) };
}

/** Copies, as bytes from a socket are: a splitter that mixes chunks up must not get away with shared memory. */
function chunked(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const edges = [0, ...[...new Set(cuts)].sort((a, b) => a - b), bytes.length];
  return edges.slice(1).map((edge, i) => Buffer.from(bytes.subarray(edges[i], edge)));
}

const cases: readonly { name: string; frames: readonly string[]; rest?: string }[] = [
  { name: 'LF', frames: ['data: 1\n\n', 'data: 2\n\n'] },
  { name: 'CRLF', frames: ['data: 1\r\n\r\n', 'data: 2\r\n\r\n'] },
  { name: 'CR', frames: ['data: 1\r\r', 'data: 2\r\r'] },
  {
    name: 'mixed',
    frames: ['a: 1\ndata: 2\r\n\n', 'data: 3\r\n\r', 'data: 4\n\r\n', 'data: 5\r\r\n', 'x\n\n'],
  },
  { name: 'byte order mark', frames: ['\xef\xbb\xbfdata: 1\n\n', 'data: 2\n\n'] },
  {
    name: 'comments, event, id, several data lines',
    frames: [': hi\n\n', 'event: e\nid: 7\ndata: 1\ndata: 2\n\n'],
  },
  { name: 'more blank lines than needed', frames: ['\n', 'data: 1\n\n', '\n', '\n', 'data: 2\n\n', '\r\n'] },
  { name: 'torn at the end', frames: ['data: 1\n\n'], rest: 'data: 2\n' },
  { name: 'an end without the last LF', frames: ['data: 1\r\n\r'] },
  { name: 'nothing at all', frames: [] },
];

for (const { name, frames, rest = '' } of cases) {
  test(`cuts the same frames wherever the chunks end: ${name}`, () => {
    const bytes = Buffer.from(frames.join('') + rest, 'latin1');
    const expected = { frames: [...frames], fragments: rest === '' ? [] : [rest], all: bytes };
    assert.deepEqual(cut([bytes]), expected);
    assert.deepEqual(cut(chunked(bytes, [...bytes.keys()])), expected);
    for (let i = 0; i <= bytes.length; i++) {
      for (let j = i; j <= bytes.length; j++)
        assert.deepEqual(cut(chunked(bytes, [i, j])), expected, `${i} ${j}`);
    }
  });
}

test('every byte comes out, in order, however bytes and chunks fall', () => {
  const byte = fc.constantFrom(...[10, 10, 13, 13, 0x64, 0x3a, 0xff]);
  fc.assert(
    fc.property(
      fc.array(byte, { maxLength: 60 }),
      fc.array(fc.nat(60)),
      fc.integer({ min: 1, max: 20 }),
      (raw, cuts, max) => {
        const bytes = Buffer.from(raw);
        const pieces = chunked(
          bytes,
          cuts.map((at) => Math.min(at, bytes.length)),
        );
        const whole = cut([bytes], max);
        const parts = cut(pieces, max);
        assert.deepEqual(parts.all, bytes);
        assert.deepEqual(parts.frames, whole.frames);
      },
    ),
  );
});

test('a frame beyond the bound is passed on in pieces and the next one is whole again', () => {
  const long = `data: ${'x'.repeat(30)}\n\n`;
  const bytes = Buffer.from(`data: 1\n\n${long}data: 2\n\n`);
  for (let at = 0; at <= bytes.length; at++) {
    const result = cut(chunked(bytes, [at, Math.min(at + 5, bytes.length)]), 20);
    assert.deepEqual(result.frames, ['data: 1\n\n', 'data: 2\n\n']);
    assert.equal(result.fragments.join(''), long);
  }
});

test('never holds more than the bound', () => {
  const splitter = new SseSplitter(() => undefined, 100);
  for (let i = 0; i < 50; i++) {
    splitter.push(Buffer.from('seven77'));
    assert.ok(splitter.heldBytes <= 100);
  }
});

test('a frame that lies within one chunk is a view of it', () => {
  const seen: Buffer[] = [];
  const splitter = new SseSplitter((bytes) => seen.push(bytes));
  const chunk = Buffer.from('data: 1\n\ndata: 2\n\n');
  splitter.push(chunk);
  assert.deepEqual(
    seen.map((frame) => [frame.buffer === chunk.buffer, frame.toString()]),
    [
      [true, 'data: 1\n\n'],
      [true, 'data: 2\n\n'],
    ],
  );
});

test('shows what it holds of the unfinished frame', () => {
  const splitter = new SseSplitter(() => undefined);
  splitter.push(Buffer.from('data: 1\n\nda'));
  splitter.push(Buffer.from('ta: 2'));
  assert.equal(splitter.held.toString(), 'data: 2');
  assert.equal(splitter.heldBytes, 7);
});
