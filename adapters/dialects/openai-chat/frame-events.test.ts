import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { chatFrames } from './frames.ts';

const text = 'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}';

/** What the frames of these bytes say; `!` for one that could not be read. */
function read(bytes: string, maxFrameBytes?: number): string[] {
  const reader = chatFrames.createReader(maxFrameBytes);
  const frames = [...reader.push(Buffer.from(bytes)), ...reader.finish()];
  assert.equal(frames.map((frame) => Buffer.from(frame.bytes).toString()).join(''), bytes, 'no byte is lost');
  return frames.map(({ events, unread }) => (unread ? '!' : '') + events.map(({ type }) => type).join());
}

describe('the frames of a chat stream', () => {
  const cases: readonly [string, string, readonly string[]][] = [
    ['whole frames', `${text}\n\ndata: [DONE]\n\n`, ['text-delta', 'done']],
    ['a last frame without its blank line', `${text}\n\n${text}`, ['text-delta', 'text-delta']],
    ['an end marker without it', 'data: [DONE]', ['done']],
    ['an end marker with half of it', 'data: [DONE]\n', ['done']],
    ['a torn last frame', text.slice(0, -3), ['!opaque']],
    ['JSON that is broken', 'data: {"choices":\n\n', ['!opaque']],
    ['JSON that is no object', 'data: "text"\n\n', ['!opaque']],
    ['a keep-alive without data', 'data: \n\n', ['opaque']],
    ['a comment', ': ping\n\n', ['opaque']],
    ['a torn comment', ': pi', ['opaque']],
    ['an object that says nothing known', 'data: {"odd":1}\n\n', ['opaque']],
  ];
  for (const [name, bytes, expected] of cases) {
    it(name, () => assert.deepEqual(read(bytes), expected));
  }

  it('every piece of a frame that is too long is unread', () => {
    const events = read(`${text}\n\n${text}\n\n`, text.length - 1);
    assert.ok(events.length >= 2 && events.every((one) => one === '!opaque'), events.join(' '));
  });
});
