import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { SseSplitter } from '../../core/base/sse.ts';
import type { AnswerFacts, Dialect, FrameCodec } from '../../core/dialects/dialect.ts';
import type { EndpointId } from '../../core/dialects/endpoint.ts';
import type { StreamEvent, StreamFrame } from '../../core/dialects/stream-event.ts';
import { errorTable, type ErrorCode } from '../../core/errors/codes.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';

/** A recorded stream and what must be learned from it. Files stand in `tests/fixtures/wire/<dialect>/`. */
interface StreamSample {
  readonly file: string;
  readonly endpoint: EndpointId;
  readonly facts: AnswerFacts;
  readonly ended: boolean;
  /** The number of the frame, from 0, that brings the first token. */
  readonly firstTokenFrame: number;
}

/** A recorded complete answer and what must be learned from it. */
interface AnswerSample {
  readonly file: string;
  readonly endpoint: EndpointId;
  readonly facts: AnswerFacts;
}

/** What the suite needs to know of a dialect. */
interface DialectConformance {
  readonly dialect: Dialect;
  readonly endpoints: readonly EndpointId[];
  /** A whole stream of the wire ends with a marker of its own. Default true. */
  readonly endMarker?: boolean;
  readonly streams: readonly StreamSample[];
  readonly answers: readonly AnswerSample[];
  /** Bodies whose texts are looked up again at the paths that the dialect reports. */
  readonly requests: readonly {
    readonly endpoint: EndpointId;
    readonly body: unknown;
    readonly texts: readonly string[];
  }[];
}

/** Declares the tests that every dialect passes. */
export function dialectConformance(options: DialectConformance): void {
  describe(`dialect ${options.dialect.name}`, () => {
    scannerTests(options);
    answerTests(options);
    requestTests(options);
    errorTests(options);
    const { frames } = options.dialect;
    if (frames !== undefined)
      for (const sample of options.streams)
        frameTests(options.dialect, frames, sample, options.endMarker ?? true);
  });
}

/** The bytes of a fixture of a dialect. */
export function wireFixture(dialect: Dialect, file: string): Buffer {
  return readFileSync(new URL(`../fixtures/wire/${dialect.name}/${file}`, import.meta.url));
}

/** Bytes in copies, cut at these offsets: chunks from a socket share no memory either. */
export function chunksOf(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const inside = [...new Set(cuts.filter((at) => at > 0 && at < bytes.length))].sort((a, b) => a - b);
  const edges = [0, ...inside, bytes.length];
  return edges.slice(1).map((edge, i) => Buffer.from(bytes.subarray(edges[i], edge)));
}

function scannerTests({ dialect, streams }: DialectConformance): void {
  const scan = (sample: StreamSample, chunks: readonly Buffer[]): { facts: AnswerFacts; ended: boolean } => {
    const scanner = dialect.streamScanner(sample.endpoint);
    for (const chunk of chunks) scanner.scan(chunk);
    return { facts: { ...scanner.facts }, ended: scanner.ended };
  };
  for (const sample of streams) {
    const expected = { facts: sample.facts, ended: sample.ended };
    test(`${sample.file}: the same facts wherever the chunks end`, () => {
      const bytes = wireFixture(dialect, sample.file);
      assert.deepEqual(scan(sample, [bytes]), expected);
      assert.deepEqual(scan(sample, chunksOf(bytes, [...bytes.keys()])), expected);
      for (let at = 1; at < bytes.length; at++)
        assert.deepEqual(scan(sample, chunksOf(bytes, [at])), expected, `cut at ${at}`);
    });
    test(`${sample.file}: the same facts with other line ends, comments, and without the last blank line`, () => {
      const text = wireFixture(dialect, sample.file).toString();
      const variants = [
        text.replaceAll('\n', '\r\n'),
        text.replaceAll('\n', '\r'),
        `\ufeff${text}`,
        text.replaceAll('\n\n', '\n: comment\n\n: alone\n\n'),
        text.trimEnd(),
      ];
      for (const variant of variants)
        assert.deepEqual(scan(sample, chunksOf(Buffer.from(variant), [40, 41, 300])), expected);
    });
    test(`${sample.file}: the first token is reported with its frame and ever after`, () => {
      const scanner = dialect.streamScanner(sample.endpoint);
      splitFrames(wireFixture(dialect, sample.file)).forEach((frame, i) => {
        assert.equal(scanner.scan(frame), i >= sample.firstTokenFrame, `frame ${i}`);
      });
    });
  }
}

function answerTests({ dialect, answers, endpoints }: DialectConformance): void {
  for (const { file, endpoint, facts } of answers) {
    test(`${file}: facts of the complete answer`, () => {
      assert.deepEqual(dialect.scanAnswer(endpoint, wireFixture(dialect, file)), facts);
    });
  }
  test('an answer that cannot be understood has no facts, and nothing throws', () => {
    for (const text of ['', 'null', '[]', '"x"', '{"usage":', '<html>', '\ufeff']) {
      for (const endpoint of endpoints)
        assert.deepEqual(dialect.scanAnswer(endpoint, Buffer.from(text)), {}, text);
    }
    fc.assert(
      fc.property(fc.constantFrom(...endpoints), fc.jsonValue(), (endpoint, value) => {
        dialect.scanAnswer(endpoint, Buffer.from(JSON.stringify(value)));
        dialect.streamScanner(endpoint).scan(Buffer.from(`data: ${JSON.stringify(value)}\n\n`));
      }),
    );
  });
}

function requestTests({ dialect, requests, endpoints }: DialectConformance): void {
  const textAt = (body: unknown, path: readonly (string | number)[]): unknown =>
    path.reduce<unknown>((value, step) => (value as Record<string | number, unknown>)[step], body);

  for (const { endpoint, body, texts } of requests) {
    test(`${endpoint}: every text is found, at the path that is reported`, () => {
      const found = dialect.decodeConversation(endpoint, body).texts;
      assert.deepEqual(
        found.map(({ text }) => text),
        texts,
      );
      for (const { text, path } of found) assert.equal(textAt(body, path), text);
    });
  }
  test('no body makes decoding or validation throw; a body that is no object is refused', () => {
    fc.assert(
      fc.property(fc.constantFrom(...endpoints), fc.jsonValue(), fc.boolean(), (endpoint, value, strict) => {
        const issue = dialect.validateRequest(endpoint, value, strict);
        if (typeof value !== 'object' || value === null || Array.isArray(value))
          assert.equal(issue?.param, 'body');
        for (const body of [
          value,
          { messages: value, input: value, prompt: value },
          { messages: [value], input: [value] },
        ]) {
          for (const { text, path } of dialect.decodeConversation(endpoint, body).texts) {
            assert.equal(textAt(body, path), text);
          }
        }
      }),
    );
    for (const endpoint of endpoints)
      assert.equal(dialect.validateRequest(endpoint, undefined, true)?.param, 'body');
  });
}

function errorTests({ dialect, endpoints }: DialectConformance): void {
  test('every error can be said, and is understood by the same dialect', () => {
    const [endpoint] = endpoints;
    assert.ok(endpoint !== undefined);
    for (const code of Object.keys(errorTable) as ErrorCode[]) {
      const error = new GatewayError(code, `It says "${code}"\nin two lines.`, {
        extra: { seed: 2n ** 60n },
      });
      const body = JSON.parse(Buffer.from(dialect.encodeError(error, 'request-1')).toString()) as Record<
        string,
        unknown
      >;
      assert.equal(body.seed, String(2n ** 60n));
      assert.equal(
        dialect.scanAnswer(endpoint, dialect.encodeError(error, 'request-1')).errorMessage,
        error.message,
      );
      const scanner = dialect.streamScanner(endpoint);
      scanner.scan(dialect.encodeStreamError(error, 'request-1'));
      assert.equal(scanner.facts.errorMessage, error.message);
      assert.equal(scanner.ended, false, 'an error is no clean end');
    }
  });
  test('the extra members of an error never replace the error itself', () => {
    const error = new GatewayError('hooks_failed', 'Denied.', {
      extra: { error: 'mine', hook_results: { a: 1 } },
    });
    const body = JSON.parse(Buffer.from(dialect.encodeError(error, 'request-1')).toString()) as {
      error: { message: string };
      hook_results: unknown;
    };
    assert.equal(body.error.message, 'Denied.');
    assert.deepEqual(body.hook_results, { a: 1 });
  });
  test('an error event is one whole frame', () => {
    const bytes = Buffer.from(
      dialect.encodeStreamError(new GatewayError('upstream_reset', 'Gone.'), 'request-1'),
    );
    assert.deepEqual(splitFrames(bytes), [bytes]);
  });
}

function frameTests(dialect: Dialect, codec: FrameCodec, sample: StreamSample, endMarker: boolean): void {
  const read = (chunks: readonly Uint8Array[]): StreamFrame[] => {
    const reader = codec.reader(sample.endpoint);
    return [...chunks.flatMap((chunk) => reader.push(chunk)), ...reader.finish()];
  };
  const bytes = wireFixture(dialect, sample.file);

  test(`${sample.file}: frames are the very bytes and say the same, however they are chunked`, () => {
    const whole = read([bytes]);
    const check = (cuts: readonly number[]): void => {
      const frames = read(chunksOf(bytes, cuts));
      assert.deepEqual(Buffer.concat(frames.map((frame) => frame.bytes)), bytes);
      assert.deepEqual(
        frames.map((frame) => frame.events),
        whole.map((frame) => frame.events),
      );
    };
    check([...bytes.keys()]);
    fc.assert(fc.property(fc.array(fc.nat(bytes.length)), check), { numRuns: 50 });
  });

  test(`${sample.file}: a replayed answer says what the stream said`, () => {
    const frames = read([bytes]);
    const answer = codec.assemble(sample.endpoint, frames);
    const replayed = read(codec.disassemble(sample.endpoint, answer));
    assert.deepEqual(said(replayed), { ...said(frames), ...(endMarker ? { done: true } : {}) });
    assert.deepEqual(
      JSON.parse(Buffer.from(codec.assemble(sample.endpoint, replayed)).toString()),
      JSON.parse(Buffer.from(answer).toString()),
    );
  });

  test(`${sample.file}: frames rewritten with their own events, and with copies of them, are the very bytes`, () => {
    const copied = (event: StreamEvent): StreamEvent => ('text' in event ? { ...event } : event);
    for (const change of [(event: StreamEvent) => event, copied]) {
      const written = rewritten(codec, read([bytes]), change);
      assert.deepEqual(said(read(written)), said(read([bytes])));
      if (codec.rewriter !== undefined) assert.deepEqual(Buffer.concat(written), bytes);
    }
  });

  test(`${sample.file}: text that is replaced is nowhere to be read any more`, () => {
    const frames = read([bytes]);
    const isLong = (event: StreamEvent): event is Extract<StreamEvent, { text: string }> =>
      'text' in event && event.text.trim().length > 4;
    const written = rewritten(codec, frames, (event) => (isLong(event) ? { ...event, text: '###' } : event));
    const text = Buffer.concat(written).toString();
    for (const event of frames.flatMap(({ events }) => events).filter(isLong))
      assert.ok(!text.includes(JSON.stringify(event.text).slice(1, -1)), text);
    const sum = said(frames);
    const again = said(read(written));
    assert.deepEqual(Object.keys(again), Object.keys(sum));
  });
}

/** The pieces of a stream whose events have all become others. */
function rewritten(
  codec: FrameCodec,
  frames: readonly StreamFrame[],
  change: (event: StreamEvent) => StreamEvent,
): readonly Uint8Array[] {
  const rewriter = codec.rewriter?.();
  const pieces = frames.flatMap((frame): readonly Uint8Array[] => {
    const events = frame.events.map(change);
    if (rewriter !== undefined) return rewriter.write(frame, events).map((written) => written.bytes);
    const piece = codec.rewrite?.(frame, events);
    return piece === undefined ? [] : [piece];
  });
  return rewriter === undefined ? pieces : [...pieces, ...rewriter.late([]).map(({ bytes }) => bytes)];
}

/** What a stream says in sum, whatever its frames. */
function said(frames: readonly StreamFrame[]): Record<string, unknown> {
  const sum: Record<string, unknown> = {};
  for (const event of frames.flatMap((frame) => frame.events)) {
    const key = keyOf(event);
    if ('text' in event) sum[key] = `${typeof sum[key] === 'string' ? sum[key] : ''}${event.text}`;
    else if (event.type === 'done') sum.done = true;
    else if (event.type !== 'opaque') sum[key] = event;
  }
  return sum;
}

function keyOf(event: StreamEvent): string {
  const choice = 'choice' in event ? event.choice : '';
  return `${event.type}:${choice}:${event.type === 'tool-arguments-delta' ? event.call : ''}`;
}

function splitFrames(bytes: Buffer): Buffer[] {
  const frames: Buffer[] = [];
  const splitter = new SseSplitter((frame) => frames.push(frame));
  splitter.push(bytes);
  splitter.finish();
  return frames;
}
