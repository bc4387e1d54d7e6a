import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chunksOf, wireFixture } from '../../../tests/conformance/dialect.ts';
import { openAiChat } from './index.ts';
import { chatFrames } from './frames.ts';

function strip(chunks: readonly Buffer[], maxFrameBytes?: number): string {
  const stripper = chatFrames.createUsageStripper(maxFrameBytes);
  const out = [...chunks.map((chunk) => stripper.push(chunk)), stripper.finish()];
  return Buffer.concat(out.filter((bytes) => bytes !== undefined)).toString();
}

function withoutUsageEvent(bytes: Buffer): string {
  return bytes
    .toString()
    .split(/(?<=\n\n)/)
    .filter((frame) => !/"choices":\[\].*"usage":\{/.test(frame))
    .join('');
}

for (const file of ['text.sse', 'filtered.sse', 'completion.sse']) {
  test(`${file}: exactly the usage event goes, wherever the chunks end`, () => {
    const bytes = wireFixture(openAiChat, file);
    const expected = withoutUsageEvent(bytes);
    assert.notEqual(expected.length, bytes.length);
    assert.equal(strip([bytes]), expected);
    assert.equal(strip(chunksOf(bytes, [...bytes.keys()])), expected);
    for (let at = 1; at < bytes.length; at++) assert.equal(strip(chunksOf(bytes, [at])), expected);
  });
}

test('usage that the host sends of its own accord stays, byte for byte', () => {
  for (const file of ['tools.sse', 'choices.sse', 'error.sse']) {
    const bytes = wireFixture(openAiChat, file);
    assert.equal(strip(chunksOf(bytes, [77, 78, 400])), bytes.toString());
  }
});

test('an event without choices stays when it says something else', () => {
  const frames = [
    'data: {"choices":[],"prompt_filter_results":[],"usage":null}\n\n',
    'data: {"choices":[],"usage":{"total_tokens":1},"error":{"message":"x"}}\n\n',
    'data: {"usage":{"total_tokens":1}}\n\n',
    ': {"choices":[],"usage":{}}\n\n',
    'data: {"choices":[],"usage":{"total_tokens":1}\n\n',
  ];
  for (const frame of frames) assert.equal(strip([Buffer.from(frame)]), frame);
});

test('a complete frame is forwarded at once, an unfinished one with its last byte', () => {
  const stripper = chatFrames.createUsageStripper();
  const chunk = Buffer.from('data: 1\n\ndata: 2\n\ndata: 3');
  const first = stripper.push(chunk);
  assert.equal(first?.toString(), 'data: 1\n\ndata: 2\n\n');
  assert.equal(first?.buffer, chunk.buffer, 'a view, not a copy');
  assert.equal(stripper.push(Buffer.from('3')), undefined);
  assert.equal(stripper.push(Buffer.from('\n\n'))?.toString(), 'data: 33\n\n');
  assert.equal(stripper.finish(), undefined);
});

test('a torn end and a frame beyond the bound are forwarded', () => {
  const usage = 'data: {"choices":[],"usage":{"total_tokens":1}}';
  assert.equal(strip([Buffer.from(`data: 1\n\n${usage}`)]), `data: 1\n\n${usage}`);
  assert.equal(strip([Buffer.from(`${usage}\n\n`)], 20), `${usage}\n\n`);
});

test('the dialect offers it', () => {
  const stripper = openAiChat.usageStripper?.();
  assert.equal(stripper?.push(Buffer.from('data: {"choices":[],"usage":{"total_tokens":1}}\n\n')), undefined);
});
