import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { StreamSource, StreamTarget } from '../../core/pipeline/answer.ts';
import { KeptStream } from './response-store.ts';

const before =
  'event: response.created\ndata: {"text":"event: response.completed\\\\n 🌊"}\n\nevent: response.output_text.delta\ndata: {"delta":"\\nevent: response.completed"}\n\n';
const final = (kind: string): string => `event: response.${kind}\ndata: {"response":{"id":"resp_1🌊"}}\n\n`;

/** A source that a test feeds, and what came out behind the kept stream. */
function kept(maxBytes: number, whole: (bytes: Buffer) => unknown) {
  let target: StreamTarget | undefined;
  const source: StreamSource = {
    pipe: (to) => void (target = to),
    resume: () => undefined,
    cancel: () => undefined,
  };
  const out: Buffer[] = [];
  const heard: string[] = [];
  new KeptStream(source, maxBytes, whole).pipe({
    data(chunk) {
      out.push(chunk);
      return true;
    },
    end: () => void heard.push('end'),
    fail: (error) => void heard.push(error.code),
  });
  assert.ok(target !== undefined);
  return { target, heard, text: () => Buffer.concat(out).toString() };
}

/** The text in pieces that end at these places. */
function* cut(text: string, places: readonly number[]): Generator<Buffer> {
  const bytes = Buffer.from(text);
  const ends = [...new Set(places.map((place) => place % bytes.length))].sort((a, b) => a - b);
  for (const [i, from] of [0, ...ends].entries()) yield bytes.subarray(from, ends[i] ?? bytes.length);
}

describe('a stream whose end is kept', () => {
  test('leaves byte for byte, however it is cut, and tells its final event alone', () => {
    const cuts = fc.array(fc.nat(1000), { maxLength: 20 });
    fc.assert(
      fc.property(
        cuts,
        fc.constantFrom('completed', 'incomplete', 'failed'),
        fc.boolean(),
        (places, kind, empty) => {
          const told: string[] = [];
          const text = (empty ? '' : before) + final(kind);
          const stream = kept(10_000, (bytes) => void told.push(bytes.toString()));
          for (const piece of cut(text, places)) stream.target.data(piece);
          stream.target.end();
          assert.equal(stream.text(), text);
          assert.deepEqual(told, kind === 'failed' ? [] : [final(kind)]);
          assert.deepEqual(stream.heard, ['end']);
        },
      ),
    );
  });

  test('its final event waits until it has been kept', async () => {
    let release = (): void => undefined;
    const keeping = new Promise<void>((resolve) => (release = resolve));
    const stream = kept(10_000, () => keeping);
    stream.target.data(Buffer.from(before + final('completed')));
    stream.target.end();
    assert.deepEqual([stream.text(), stream.heard], ['', []]);
    release();
    await keeping;
    await Promise.resolve();
    assert.deepEqual([stream.text(), stream.heard], [before + final('completed'), ['end']]);
  });

  test('one that is too long, or breaks, flows by and is not kept', () => {
    const long = kept(40, () => assert.fail('kept'));
    for (const piece of [before, final('completed'), 'more']) long.target.data(Buffer.from(piece));
    long.target.end();
    assert.deepEqual([long.text(), long.heard], [`${before}${final('completed')}more`, ['end']]);
    const broken = kept(10_000, () => assert.fail('kept'));
    broken.target.data(Buffer.from(final('completed')));
    broken.target.fail(new GatewayError('upstream_reset', 'It broke.'));
    assert.deepEqual([broken.text(), broken.heard], [final('completed'), ['upstream_reset']]);
  });
});
