import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import fc from 'fast-check';
import type { Transport } from '../../../core/ports/transport.ts';
import { HandClock, idle, newTransport, upstreamRequest } from '../mock.test-support.ts';

interface Said {
  readonly type: string;
  readonly [member: string]: unknown;
}

const handshake = ['upgrade', 'websocket', 'sec-websocket-key', 'dGhlIHNhbXBsZSBub25jZQ=='];

/** A frame as clients send it. */
function masked(opcode: number, payload: Buffer, final = true): Buffer {
  const { length } = payload;
  const head =
    length < 126 ? [0x80 | length] : length < 65_536 ? [0xfe, length >> 8, length & 255] : undefined;
  const long = Buffer.alloc(9);
  long[0] = 0xff;
  long.writeBigUInt64BE(BigInt(length), 1);
  const mask = [1, 2, 3, 4];
  const body = payload.map((byte, i) => byte ^ (mask[i % 4] as number));
  return Buffer.concat([
    Buffer.from([(final ? 0x80 : 0) | opcode]),
    head === undefined ? long : Buffer.from(head),
    Buffer.from(mask),
    body,
  ]);
}

/** Frames of a server, which are whole and not masked. */
function framesOf(bytes: Buffer): { opcode: number; payload: Buffer }[] {
  const frames: { opcode: number; payload: Buffer }[] = [];
  for (let at = 0; at < bytes.length;) {
    const short = (bytes[at + 1] as number) & 127;
    const extra = short === 126 ? 2 : short === 127 ? 8 : 0;
    const length =
      extra === 0 ? short : extra === 2 ? bytes.readUInt16BE(at + 2) : Number(bytes.readBigUInt64BE(at + 2));
    const start = at + 2 + extra;
    frames.push({ opcode: (bytes[at] as number) & 15, payload: bytes.subarray(start, start + length) });
    at = start + length;
  }
  return frames;
}

async function connect(t: TestContext, path = '/v1/realtime?model=mock-realtime', transport?: Transport) {
  const used = transport ?? newTransport();
  t.after(() => used.close());
  const answer = await used.upgrade?.({ ...upstreamRequest({ path, headers: handshake }), method: 'GET' })
    .answer;
  assert.ok(answer?.kind === 'switched');
  const { connection } = answer;
  const chunks: Buffer[] = [];
  const state = { ended: false, error: undefined as Error | undefined };
  connection.on('data', (chunk: Buffer) => chunks.push(chunk));
  connection.on('end', () => (state.ended = true));
  connection.on('error', (error) => (state.error = error));
  const frames = () => framesOf(Buffer.concat(chunks));
  return {
    answer,
    connection,
    state,
    frames,
    send: (event: object) => connection.write(masked(1, Buffer.from(JSON.stringify(event)))),
    said: () =>
      frames()
        .filter(({ opcode }) => opcode === 1)
        .map(({ payload }) => JSON.parse(payload.toString()) as Said),
  };
}

const userSays = (text: string): object => ({
  type: 'conversation.item.create',
  item: { type: 'message', role: 'user', content: [{ type: 'input_text', text }] },
});

describe('realtime', () => {
  it('switches with the key that RFC 6455 shows, and greets', async (t) => {
    const { answer, said } = await connect(t);
    assert.equal(
      answer.headers[answer.headers.indexOf('sec-websocket-accept') + 1],
      's3pPLMBiTxaQ9kYGzzhZRbK+xOo=',
    );
    await idle();
    assert.deepEqual(
      said().map(({ type }) => type),
      ['session.created'],
    );
  });

  it('answers the last message of the user, in the order of the interface', async (t) => {
    const { send, said } = await connect(t, '/realtime?model=mock:chunk_tokens=1000');
    send(userSays('Hello'));
    send({ type: 'response.create' });
    await idle();
    const names = said().map(({ type }) => type);
    assert.deepEqual(names, [
      ...['session.created', 'conversation.item.added', 'conversation.item.done', 'response.created'],
      ...['response.output_item.added', 'conversation.item.added', 'response.content_part.added'],
      ...['response.output_text.delta', 'response.output_text.done', 'response.content_part.done'],
      ...['response.output_item.done', 'conversation.item.done', 'response.done'],
    ]);
    const done = said().at(-1)?.['response'] as { status: string; usage: { output_tokens: number } };
    assert.equal(done.status, 'completed');
    assert.ok(done.usage.output_tokens > 0);
    assert.match(String(said()[7]?.['delta']), /You said: "Hello"/);
  });

  it('a preview client hears the names of the preview', async (t) => {
    const transport = newTransport();
    const headers = [...handshake, 'openai-beta', 'realtime=v1'];
    const request = { ...upstreamRequest({ path: '/realtime', headers }), method: 'GET' };
    t.after(() => transport.close());
    const answer = await transport.upgrade?.(request).answer;
    assert.ok(answer?.kind === 'switched');
    const chunks: Buffer[] = [];
    answer.connection.on('data', (chunk: Buffer) => chunks.push(chunk));
    answer.connection.write(masked(1, Buffer.from('{"type":"response.create"}')));
    await idle();
    const names = framesOf(Buffer.concat(chunks)).map(({ payload }) => JSON.parse(payload.toString()).type);
    assert.ok(names.includes('response.text.delta') && names.includes('conversation.item.created'));
    assert.ok(!names.some((name) => /output_text|item\.done$/.test(name.replace('output_item.done', ''))));
  });

  it('a response is cancelled between two pieces; what follows is answered', async (t) => {
    const clock = new HandClock();
    const { send, said } = await connect(
      t,
      '/realtime?model=mock:chunk_latency_ms=10,tokens=500',
      newTransport(clock),
    );
    send({ type: 'response.create' });
    for (let i = 0; i < 8; i++) {
      clock.advance(10);
      await idle();
    }
    send({ type: 'response.cancel' });
    send({ type: 'session.update', session: { instructions: 'x' } });
    for (let i = 0; i < 10; i++) {
      clock.advance(10);
      await idle();
    }
    const done = said().find(({ type }) => type === 'response.done')?.['response'] as { status: string };
    assert.equal(done.status, 'cancelled');
    assert.ok(said().filter(({ type }) => type === 'response.output_text.delta').length < 10);
    assert.equal(said().at(-1)?.type, 'session.updated');
  });

  const refused: readonly [string, string][] = [
    ['no JSON', 'invalid_json'],
    ['7', 'invalid_event'],
    ['{"type":"__proto__"}', 'not_played'],
    ['{"type":"session.update"}', 'missing_required_parameter'],
    [JSON.stringify({ type: 'session.update', session: { x: 'y'.repeat(300_000) } }), 'invalid_value'],
    ['{"type":"response.cancel"}', 'response_cancel_not_active'],
  ];
  for (const [message, code] of refused)
    it(`${message.slice(0, 40)} gets an error event, and the connection goes on`, async (t) => {
      const { connection, said, send } = await connect(t);
      connection.write(masked(1, Buffer.from(message)));
      send(userSays('x'));
      await idle();
      assert.equal((said()[1]?.['error'] as { code: string }).code, code);
      assert.equal(said().at(-1)?.type, 'conversation.item.done');
    });

  const broken: readonly [string, Buffer, number][] = [
    ['unmasked', Buffer.from([0x81, 1, 65]), 1002],
    ['a reserved bit', Buffer.from([0xc1, 0x80, 0, 0, 0, 0]), 1002],
    ['a continuation of nothing', masked(0, Buffer.from('x')), 1002],
    ['a torn control frame', masked(9, Buffer.from('x'), false), 1002],
    ['bytes', masked(2, Buffer.from('x')), 1003],
    ['no UTF-8', masked(1, Buffer.from([0xff, 0xfe])), 1007],
    ['too long', Buffer.from([0x81, 0xff, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff]), 1009],
  ];
  for (const [what, bytes, code] of broken)
    it(`${what} closes with ${code}`, async (t) => {
      const { connection, frames, state } = await connect(t);
      connection.write(bytes);
      await idle();
      const last = frames().at(-1);
      assert.deepEqual([last?.opcode, last?.payload.readUInt16BE(0), state.ended], [8, code, true]);
    });

  it('ping gets pong, close gets its code back, and the connection is over', async (t) => {
    const { connection, frames, state } = await connect(t);
    connection.write(masked(9, Buffer.from('abc')));
    connection.write(masked(8, Buffer.from([0x03, 0xe8])));
    await idle();
    const [pong, close] = frames().filter(({ opcode }) => opcode !== 1);
    assert.deepEqual([pong?.opcode, pong?.payload.toString()], [10, 'abc']);
    assert.deepEqual([close?.opcode, close?.payload.readUInt16BE(0)], [8, 1000]);
    assert.equal(state.ended, true);
  });

  it('however a message is cut into frames and bytes, it is heard as a whole', async (t) => {
    const message = Buffer.from(JSON.stringify(userSays('Grüße 🙂 '.repeat(20))));
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(fc.integer({ min: 1, max: message.length - 1 }), { maxLength: 6 }),
        fc.integer({ min: 1, max: 90 }),
        async (cuts, size) => {
          const { connection, said } = await connect(t);
          const edges = [0, ...cuts.sort((a, b) => a - b), message.length];
          const bytes = Buffer.concat(
            edges.slice(1).map((end, i) => {
              const part = message.subarray(edges[i], end);
              return masked(i === 0 ? 1 : 0, part, end === message.length);
            }),
          );
          for (let at = 0; at < bytes.length; at += size) connection.write(bytes.subarray(at, at + size));
          await idle();
          const item = said()[1]?.['item'] as { content: { text: string }[] };
          assert.equal(item.content[0]?.text, 'Grüße 🙂 '.repeat(20));
        },
      ),
      { numRuns: 25 },
    );
  });

  it('reads no further while many answers wait for a client that takes none', async (t) => {
    const transport = newTransport();
    t.after(() => transport.close());
    const path = '/realtime?model=mock:tokens=100000';
    const answer = await transport.upgrade?.({
      ...upstreamRequest({ path, headers: handshake }),
      method: 'GET',
    }).answer;
    assert.ok(answer?.kind === 'switched');
    const { connection } = answer;
    let taken = 0;
    for (let i = 0; i < 200; i++)
      connection.write(masked(1, Buffer.from('{"type":"response.create"}')), () => (taken += 1));
    await idle();
    assert.ok(taken < 50, `${taken} were read`);
  });

  describe('faults', () => {
    const ask = (transport: Transport, model: string, more: object = {}) =>
      transport.upgrade?.({
        ...upstreamRequest({ path: `/realtime?model=${model}`, headers: handshake, ...more }),
        method: 'GET',
      }).answer;

    it('status declines in HTTP; of a rate, every second', async () => {
      const transport = newTransport();
      const kinds: unknown[] = [];
      for (let i = 0; i < 4; i++) kinds.push((await ask(transport, 'mock:status=429,fail_rate=0.5'))?.kind);
      assert.deepEqual(kinds, ['switched', 'declined', 'switched', 'declined']);
      await transport.close();
    });

    it('a word that is not known is refused with its sentence', async () => {
      const answer = await ask(newTransport(), 'mock:nonsense=1');
      assert.ok(answer?.kind === 'declined');
      assert.equal(answer.status, 400);
      assert.match(answer.body.toString(), /knows no fault `nonsense`/);
    });

    it('reset_before_head, stall_before_head and an abort end the call', async () => {
      const clock = new HandClock();
      const transport = newTransport(clock);
      await assert.rejects(async () => ask(transport, 'mock:reset_before_head'), /reset_before_head/);
      const stalled = ask(transport, 'mock:stall_before_head', { headTimeoutMs: 50 });
      const failed = assert.rejects(async () => stalled, /sent no head for 50 ms/);
      clock.advance(50);
      await failed;
      const waiting = ask(transport, 'mock:stall_before_head');
      const closed = assert.rejects(async () => waiting, /has been closed/);
      await transport.close();
      await closed;
    });

    it('reset_after_chunks cuts the connection', async (t) => {
      const { send, state, said } = await connect(t, '/realtime?model=mock:reset_after_chunks=3');
      send({ type: 'response.create' });
      await idle();
      assert.equal(said().length, 3);
      assert.match(state.error?.message ?? '', /reset_after_chunks/);
    });
  });

  it('every other path is answered in HTTP', async () => {
    const request = upstreamRequest({ path: '/v1/chat/completions', headers: handshake });
    const answer = await newTransport().upgrade?.({ ...request, method: 'GET' }).answer;
    assert.ok(answer?.kind === 'declined');
    assert.equal(answer.status, 501);
  });
});
