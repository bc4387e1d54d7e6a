import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import { after, before, describe, it } from 'node:test';
import fc from 'fast-check';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { RawServer, Recorder, send, testTransport, until } from './transport.test-support.ts';

const endings = ['keep', 'close', 'reset', 'cut', 'more'] as const;
const framings = [
  'content-length: 6',
  'transfer-encoding: chunked',
  'connection: close',
  'content-length: 60',
] as const;
const stages = ['never', 'at once', 'head', 'data', 'later'] as const;

interface Script {
  readonly framing: (typeof framings)[number];
  readonly ending: (typeof endings)[number];
  /** Where the answer is cut into two writes. */
  readonly cut: number;
  readonly abort: (typeof stages)[number];
  readonly pauseMs: number;
  readonly upload: 'none' | 'bytes' | 'stream' | 'broken';
}

const script = fc.record<Script>({
  framing: fc.constantFrom(...framings),
  ending: fc.constantFrom(...endings),
  cut: fc.nat(90),
  abort: fc.constantFrom(...stages),
  pauseMs: fc.constantFrom(0, 0, 1, 4),
  upload: fc.constantFrom('none', 'bytes', 'stream', 'broken'),
});

describe('whatever server, client and reader do', () => {
  let server: RawServer;
  const scripts = new Map<string, Script>();
  let uncaught: unknown;
  const onUncaught = (error: unknown): void => {
    uncaught ??= error;
  };

  before(async () => {
    process.on('uncaughtException', onUncaught);
    server = await RawServer.start((socket) => {
      socket.on('data', (chunk: Buffer) => {
        const id = /^[A-Z]+ \/(\d+) /.exec(chunk.toString('latin1'))?.[1];
        if (id !== undefined) play(socket, scripts.get(id) as Script);
      });
    });
  });
  after(async () => {
    await server.stop();
    process.off('uncaughtException', onUncaught);
  });

  it('every call ends exactly once, no socket is left and nothing is thrown', async () => {
    let id = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(script, { minLength: 1, maxLength: 12 }), async (batch) => {
        const transport = testTransport();
        const recorders = batch.map((entry) => {
          id += 1;
          scripts.set(String(id), entry);
          return start(transport, server.origin, `/${id}`, entry);
        });
        await Promise.all(recorders.map((recorder) => recorder.ended));
        for (const recorder of recorders) assert.equal(recorder.ends, 1);
        assert.deepEqual([transport.stats().pending, transport.stats().running], [0, 0]);
        await transport.close();
        assert.equal(transport.stats().connections, 0);
        assert.equal(uncaught, undefined);
      }),
      { numRuns: 60 },
    );
    await until(() => server.sockets.size === 0, 'no socket is left');
    await new Promise(setImmediate);
    assert.equal(uncaught, undefined);
  });
});

function play(socket: Socket, { framing, ending, cut }: Script): void {
  const body = framing === 'transfer-encoding: chunked' ? '6\r\nabcdef\r\n0\r\n\r\n' : 'abcdef';
  const bytes = `HTTP/1.1 200 OK\r\n${framing}\r\n\r\n${body}`;
  socket.write(bytes.slice(0, cut));
  setImmediate(() => {
    if (ending !== 'cut') socket.write(bytes.slice(cut));
    if (ending === 'more') socket.write('HTTP/1.1 200 OK\r\n\r\nunasked');
    if (ending === 'reset') socket.resetAndDestroy();
    else if (ending !== 'keep') socket.end();
  });
}

function start(
  transport: ReturnType<typeof testTransport>,
  origin: string,
  path: string,
  { abort, pauseMs, upload }: Script,
): Recorder {
  const recorder = new Recorder();
  const stop = (): void => recorder.call?.abort(new GatewayError('client_closed', 'the client left'));
  recorder.onHead = () => {
    if (abort === 'head') stop();
  };
  recorder.onData = () => {
    if (abort === 'data') stop();
    if (pauseMs === 0) return true;
    setTimeout(() => recorder.resume(), pauseMs);
    return false;
  };
  send(
    transport,
    {
      origin,
      path,
      method: upload === 'none' ? 'GET' : 'POST',
      body: uploadOf(upload),
      // Some answers never end by themselves.
      headTimeoutMs: 40,
      idleTimeoutMs: 40,
    },
    recorder,
  );
  if (abort === 'at once') stop();
  if (abort === 'later') setTimeout(stop, 3);
  return recorder;
}

function uploadOf(upload: Script['upload']): Readable | Buffer | null {
  if (upload === 'none') return null;
  if (upload === 'bytes') return Buffer.from('{}');
  if (upload === 'stream') return Readable.from([Buffer.from('ab'), Buffer.from('cd')]);
  const broken = new Readable({ read: () => undefined });
  broken.on('error', () => undefined);
  broken.push('ab');
  setTimeout(() => broken.destroy(new Error('gone')), 2);
  return broken;
}
