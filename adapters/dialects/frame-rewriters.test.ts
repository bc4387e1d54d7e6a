import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { describe, test } from 'node:test';
import { fakeAnthropicMessages } from '../../tests/kit/fake-providers/anthropic-messages.ts';
import { fixtureEvents } from '../../tests/kit/fake-providers/fake-providers.ts';
import type { FakeWire } from '../../tests/kit/fake-providers/fake-wire.ts';
import { fakeGoogleGemini } from '../../tests/kit/fake-providers/google-gemini.ts';
import { fakeOpenAiResponses } from '../../tests/kit/fake-providers/openai-responses.ts';
import type { FrameCodec } from '../../core/dialects/dialect.ts';
import type { EndpointId } from '../../core/dialects/endpoint.ts';
import type { StreamEvent, StreamFrame, TextEvent } from '../../core/dialects/stream-event.ts';
import { messageFrames } from './anthropic-messages/frame-rewriter.ts';
import { geminiArrayFrames, geminiFrames } from './google-gemini/frame-rewriter.ts';
import { responsesFrames } from './openai-responses/frame-rewriter.ts';
type Change = (event: StreamEvent) => readonly StreamEvent[];

interface Wire {
  readonly name: string;
  readonly codec: FrameCodec;
  readonly fake: FakeWire;
  readonly endpoint: EndpointId;
  /** The events of a stream as bytes. */
  readonly bytes: (frames: readonly Buffer[]) => Buffer;
}

const elements = (frames: readonly Buffer[]): Buffer => {
  const objects = frames.map((frame) =>
    frame
      .toString()
      .replace(/^data: /, '')
      .trim(),
  );
  return Buffer.from(`[${objects.join('\n,\r\n')}\n]\n`);
};
const gemini = { fake: fakeGoogleGemini, endpoint: 'generate-content' } as const;
const wires: readonly Wire[] = [
  {
    name: 'responses',
    codec: responsesFrames,
    fake: fakeOpenAiResponses,
    endpoint: 'responses',
    bytes: Buffer.concat,
  },
  {
    name: 'messages',
    codec: messageFrames,
    fake: fakeAnthropicMessages,
    endpoint: 'messages',
    bytes: Buffer.concat,
  },
  { name: 'gemini', codec: geminiFrames, bytes: Buffer.concat, ...gemini },
  { name: 'gemini array', codec: geminiArrayFrames, bytes: elements, ...gemini },
];

function fixturesOf({ fake }: Wire): readonly string[] {
  const files = readdirSync(new URL(`../../tests/fixtures/wire/${fake.dialect}/`, import.meta.url));
  return files.flatMap((file) => (/^grid-.*\.events$/.test(file) ? [file.replace('.events', '')] : []));
}

async function streamOf(wire: Wire, fixture: string): Promise<Buffer> {
  const events = await fixtureEvents(wire.fake, fixture);
  return wire.bytes(events.map((event) => wire.fake.frame(event)));
}

function read({ codec, endpoint }: Wire, chunks: readonly Uint8Array[]): readonly StreamFrame[] {
  const reader = codec.reader(endpoint);
  return [...chunks.flatMap((chunk) => reader.push(chunk)), ...reader.finish()];
}

/** The stream as it leaves when each event becomes others and `late` comes at the end. */
function through(wire: Wire, bytes: Buffer, change: Change, late: () => readonly StreamEvent[] = () => []) {
  const rewriter = wire.codec.rewriter?.();
  assert.ok(rewriter !== undefined);
  const out: StreamFrame[] = [];
  let ended = false;
  for (const frame of read(wire, [bytes])) {
    if (frame.events.some(({ type }) => type === 'done')) {
      ended = true;
      out.push(...rewriter.late(late()));
    }
    out.push(...rewriter.write(frame, frame.events.flatMap(change)));
  }
  if (!ended) out.push(...rewriter.late(late()));
  const written = Buffer.concat(out.map((frame) => frame.bytes));
  // Each frame that leaves says what its events say: the next tap sees those.
  assert.deepEqual(said(read(wire, [written])), said(out));
  return written;
}

/** What a stream says in sum. Calls without arguments are told as an empty object or as nothing. */
function said(frames: readonly StreamFrame[]): Record<string, unknown> {
  const sum: Record<string, unknown> = {};
  for (const event of frames.flatMap(({ events }) => events)) {
    if ('text' in event) {
      const key = event.type === 'tool-arguments-delta' ? `${event.type}:${event.call}` : event.type;
      if (event.type === 'tool-arguments-delta' && event.name !== undefined)
        sum[`name of ${key}`] = event.name;
      if (event.text !== '') sum[key] = (typeof sum[key] === 'string' ? sum[key] : '') + event.text;
    } else if (event.type !== 'opaque') sum[event.type] = event;
  }
  for (const [key, value] of Object.entries(sum)) if (value === '{}') delete sum[key];
  return sum;
}

const isText = (event: StreamEvent): event is TextEvent => 'text' in event;

for (const wire of wires) {
  describe(`${wire.name} streams`, () => {
    for (const fixture of fixturesOf(wire)) {
      test(`${fixture}: frames are the very bytes, wherever they are cut`, async () => {
        const bytes = await streamOf(wire, fixture);
        const whole = read(wire, [bytes]);
        for (let at = 1; at < bytes.length; at += 13) {
          const frames = read(wire, [Buffer.from(bytes.subarray(0, at)), Buffer.from(bytes.subarray(at))]);
          assert.deepEqual(Buffer.concat(frames.map((frame) => frame.bytes)), bytes);
          assert.deepEqual(said(frames), said(whole));
        }
      });

      test(`${fixture}: what is said again in the same words changes no byte`, async () => {
        const bytes = await streamOf(wire, fixture);
        const copied = through(wire, bytes, (event) => [isText(event) ? { ...event } : event]);
        assert.equal(copied.toString(), bytes.toString());
      });

      test(`${fixture}: no text that is replaced stands anywhere any more`, async () => {
        const bytes = await streamOf(wire, fixture);
        const changed = through(wire, bytes, (event) => {
          if (!isText(event) || event.text === '') return [event];
          return [{ ...event, text: event.type === 'tool-arguments-delta' ? '{}' : '#' }];
        }).toString();
        for (const event of read(wire, [bytes]).flatMap(({ events }) => events)) {
          if (!isText(event) || event.text.trim().length < 6) continue;
          assert.ok(!changed.includes(JSON.stringify(event.text).slice(1, -1)), `${event.text}\n${changed}`);
        }
      });

      test(`${fixture}: what is held to the end is said there, all of it`, async () => {
        const bytes = await streamOf(wire, fixture);
        const held: StreamEvent[] = [];
        const written = through(
          wire,
          bytes,
          (event) => {
            if (!isText(event)) return [event];
            held.push(event);
            return [];
          },
          () => held,
        );
        const before = said(read(wire, [bytes]));
        const after = said(read(wire, [written]));
        const texts = (sum: Record<string, unknown>): readonly string[] =>
          Object.values(sum).flatMap((value) => (typeof value === 'string' ? [value] : []));
        assert.deepEqual([...texts(after)].sort(), [...texts(before)].sort());
        assert.deepEqual([after.finish, after.usage], [before.finish, before.usage]);
      });

      test(`${fixture}: all text can be taken out`, async () => {
        const bytes = await streamOf(wire, fixture);
        const written = through(wire, bytes, (event) => (isText(event) ? [] : [event]));
        const left = said(read(wire, [written]));
        assert.deepEqual(
          Object.values(left).filter((value) => typeof value === 'string'),
          [],
        );
        assert.ok(left.finish !== undefined);
      });

      test(`${fixture}: the answer that it adds up to is replayed as the same`, async () => {
        const frames = read(wire, [await streamOf(wire, fixture)]);
        const answer = Buffer.from(wire.codec.assemble(wire.endpoint, frames));
        const replayed = read(wire, wire.codec.disassemble(wire.endpoint, answer));
        assert.deepEqual(said(replayed), said(frames));
        const again = Buffer.from(wire.codec.assemble(wire.endpoint, replayed));
        assert.deepEqual(JSON.parse(again.toString()), JSON.parse(answer.toString()));
      });
    }
  });
}
