/** Framings of streams: bytes in, payloads out, wherever the bytes are cut. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { JsonArrayReader } from '../../adapters/framing/json-array.ts';
import {
  AwsEventReader,
  createPayloadReader,
  NdjsonReader,
  SseReader,
} from '../../adapters/framing/payload-reader.ts';
import type { PayloadReader, StreamPayload } from '../../adapters/framing/stream-payload.ts';
import { readAll } from '../../adapters/framing/split-bytes.test-support.ts';
import {
  writeAwsEventStreamFrame,
  writeAwsEventStreamMessage,
} from '../../adapters/framing/write-aws-event-stream.test-support.ts';
import { readSseFrame, replaceSseData, SseSplitter, writeSseFrame } from '../../core/base/sse.ts';
import { cuts, editedBytes, piecesOf } from './bytes.ts';
import { must, target, type FuzzTarget } from './target.ts';

interface Framing {
  readonly type: string;
  readonly bounded: (maxBytes: number) => PayloadReader;
  readonly write: (texts: readonly string[]) => Buffer;
}

const asLines = (texts: readonly string[]): Buffer => Buffer.from(texts.map((text) => `${text}\n`).join(''));
const asEvents = (texts: readonly string[]): Buffer =>
  Buffer.concat(texts.map((text) => writeSseFrame(text)));
const asArray = (texts: readonly string[]): Buffer => Buffer.from(`[${texts.join(',\n')}]`);
const asMessages = (texts: readonly string[]): Buffer =>
  Buffer.concat(
    texts.map((text) => writeAwsEventStreamMessage({ ':message-type': 'event', ':event-type': '' }, text)),
  );
const ndjson = { bounded: (max: number) => new NdjsonReader(max), write: asLines };

const framings: readonly Framing[] = [
  { type: 'text/event-stream', bounded: (max) => new SseReader(max), write: asEvents },
  { type: '', bounded: (max) => new SseReader(max), write: asArray },
  { type: 'application/json', bounded: (max) => new JsonArrayReader(max), write: asArray },
  { type: 'application/x-ndjson', ...ndjson },
  {
    type: 'application/vnd.amazon.eventstream',
    bounded: (max) => new AwsEventReader(max),
    write: asMessages,
  },
];

/** One JSON text each, in one line. */
const texts = fc.array(
  fc.oneof(
    fc.jsonValue({ maxDepth: 2 }).map((value) => JSON.stringify({ value })),
    fc.string({ unit: 'binary', maxLength: 30 }).map((text) => JSON.stringify({ text })),
  ),
  { maxLength: 6 },
);
const headerBlock = fc.uint8Array({ maxLength: 40 });

interface Case {
  readonly framing: number;
  readonly bytes: Buffer;
  readonly places: readonly number[] | 'each';
  readonly max: number | undefined;
}

const caseOf: fc.Arbitrary<Case> = fc.nat(framings.length - 1).chain((framing) => {
  const { write, type } = framings[framing] as Framing;
  const written = texts.map(write);
  // Checksums that are right around headers that are wrong.
  const odd = fc
    .array(fc.tuple(headerBlock, fc.string({ maxLength: 20 })), { maxLength: 3 })
    .map((messages) => Buffer.concat(messages.map(([block, text]) => writeAwsEventStreamFrame(block, text))));
  return fc.record({
    framing: fc.constant(framing),
    bytes: type.includes('amazon') ? fc.oneof(editedBytes(written), odd) : editedBytes(written, 4),
    places: cuts,
    max: fc.option(fc.integer({ min: 1, max: 80 }), { nil: undefined }),
  });
});

function readPieces({ framing, bytes, places, max }: Case): void {
  const { type, bounded } = framings[framing] as Framing;
  const make = (): PayloadReader => (max === undefined ? createPayloadReader(type) : bounded(max));
  const whole = readAll(make(), [bytes]);
  assert.deepEqual(readAll(make(), piecesOf(bytes, places)), whole);
  const errors = whole.filter(({ error }) => error !== undefined);
  must(
    errors.length <= 1 && (errors.length === 0 || whole.at(-1)?.error !== undefined),
    'The error is not the last.',
  );
  must(sizeOf(whole) <= 4 * bytes.length + 400, () => `${sizeOf(whole)} characters of ${bytes.length} bytes`);
}

function sizeOf(payloads: readonly StreamPayload[]): number {
  return payloads.reduce(
    (sum, { event, data, error = '' }) => sum + event.length + data.length + error.length,
    0,
  );
}

const lineText = fc
  .string({ unit: 'grapheme', maxLength: 20 })
  .map((text) => text.replaceAll(/[\r\n]/g, ' '));

/** Targets of this file. */
export const framingTargets: readonly FuzzTarget[] = [
  target('framing-readers', () => ({ values: caseOf, check: readPieces })),
  target('framing-round-trip', () => ({
    values: fc.record({ framing: fc.nat(framings.length - 1), said: texts, places: cuts }),
    check({ framing, said, places }) {
      const { type, write } = framings[framing] as Framing;
      const read = readAll(createPayloadReader(type), piecesOf(write(said), places));
      assert.deepEqual(
        read.map(({ data, error }) => error ?? data),
        [...said],
      );
    },
  })),
  target('framing-sse-frames', () => ({
    values: fc.record({ bytes: editedBytes(texts.map(asEvents), 4), places: cuts, text: lineText }),
    check({ bytes, places, text }) {
      const frames: [Buffer, boolean][] = [];
      const splitter = new SseSplitter((frame, whole) => frames.push([frame, whole]));
      for (const piece of piecesOf(bytes, places)) splitter.push(piece);
      splitter.finish();
      assert.deepEqual(Buffer.concat(frames.map(([frame]) => frame)), bytes);
      for (const [frame, whole] of frames) {
        const { event } = readSseFrame(frame);
        if (!whole) continue;
        const replaced = readSseFrame(replaceSseData(frame, text));
        assert.deepEqual(replaced, { event, data: text });
      }
    },
  })),
];
