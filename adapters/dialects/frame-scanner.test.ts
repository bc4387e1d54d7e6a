import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AnswerFacts } from '../../core/dialects/dialect.ts';
import { FrameScanner, watch, type EventReader } from './frame-scanner.ts';
import type { JsonObject } from './json-reading.ts';

/** Notes what it was given to read. */
class NotingReader implements EventReader {
  readonly facts: AnswerFacts = {};
  readonly ended = false;
  readonly seen: unknown[] = [];

  read(json: JsonObject, event: string): boolean {
    this.seen.push(event === '' ? json.n : event);
    if (typeof json.model === 'string' && json.model !== '') this.facts.model = json.model;
    return json.token === true;
  }
}

function scanned(
  events: readonly string[],
  maxFrameBytes?: number,
): { seen: unknown[]; scanner: FrameScanner } {
  const reader = new NotingReader();
  const scanner = new FrameScanner(
    reader,
    [watch('usage', 'object'), watch('reason', 'string'), watch('error', 'anything but null')],
    maxFrameBytes,
  );
  for (const event of events) scanner.scan(Buffer.from(`${event}\n\n`));
  return { seen: reader.seen, scanner };
}

const padding = `"padding":"${'x'.repeat(40)}"`;
const event = (n: number, members: string): string => `data: {"n":${n},${padding},${members}}`;

test('after the first token only frames that may say something new are parsed', () => {
  const { seen } = scanned([
    event(1, '"role":1'),
    event(2, '"token":true'),
    event(3, '"model":""'),
    event(4, '"model":"m"'),
    event(5, '"model":"m"'),
    event(6, '"usage":null,"reason":null,"error":null'),
    event(7, '"text":"\\"usage\\":{ \\"error\\":1"'),
    event(8, '"usage" : {"a":1}'),
    event(9, '"reason":"stop"'),
    event(10, '"error":{"a":1}'),
    event(11, '"usage":null,"inner":{"usage":{"a":1}}'),
    event(12, '"object":"error"'),
    `event: error\n${event(13, '"a":1')}`,
    `event: other\n${event(14, '"a":1')}`,
    event(15, '"text":"plain"'),
  ]);
  assert.deepEqual(seen, [1, 2, 3, 4, 8, 9, 10, 11, 12, 'error']);
});

test('a frame beyond the bound is not scanned, the next one is', () => {
  const { seen } = scanned([event(1, `"long":"${'x'.repeat(500)}"`), event(2, '"a":1')], 200);
  assert.deepEqual(seen, [2]);
});

test('the end marker ends the stream, the same text in an answer does not', () => {
  const marker = scanned(['data: [DONE]']).scanner;
  assert.equal(marker.ended, true);
  const text = scanned([event(1, '"text":"[DONE]"')]).scanner;
  assert.equal(text.ended, false);
});

test('an end marker without its blank line counts', () => {
  const { scanner } = scanned([event(1, '"token":true')]);
  scanner.scan(Buffer.from('data: [DONE]\n'));
  assert.equal(scanner.ended, true);
});
