import { brotliCompressSync, constants, createBrotliCompress, createGzip, gzipSync } from 'node:zlib';
import type { MockAnswer, PlainAnswer, StreamAnswer } from './answer.ts';
import type { Faults } from './fault-words.ts';

const brotliOptions = { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } };

/** An answer as it goes on the wire. */
export interface WireAnswer {
  readonly status: number;
  /** Flat; a whole answer's `content-length` is among them. */
  readonly headers: readonly string[];
  readonly pieces: Iterable<Buffer> | AsyncIterable<Buffer>;
}

/** Renders an answer with the faults that change its bytes: compression, broken frames, a wrong length. */
export function wireAnswer(answer: MockAnswer, faults: Faults): WireAnswer {
  return answer.kind === 'plain' ? plainWire(answer, faults) : streamWire(answer, faults);
}

function plainWire(answer: PlainAnswer, faults: Faults): WireAnswer {
  const headers = [...answer.headers];
  let body = answer.body;
  if (faults.malformed_after_chunks !== undefined) body = body.subarray(0, Math.floor(body.length / 2));
  if (faults.encoding !== undefined) {
    body = faults.encoding === 'gzip' ? gzipSync(body) : brotliCompressSync(body, brotliOptions);
    headers.push('content-encoding', faults.encoding);
  }
  const promised = faults.content_length_mismatch === true ? body.length + 64 : body.length;
  headers.push('content-length', String(promised));
  const cut = Math.max(faults.reset_after_chunks ?? 0, faults.stall_after_chunks ?? 0);
  return { status: answer.status, headers, pieces: cutEvenly(body, cut + 1) };
}

function streamWire(answer: StreamAnswer, faults: Faults): WireAnswer {
  const pieces = streamBytes(answer, faults);
  if (faults.encoding === undefined) return { status: answer.status, headers: answer.headers, pieces };
  return {
    status: answer.status,
    headers: [...answer.headers, 'content-encoding', faults.encoding],
    pieces: compressed(pieces, faults.encoding),
  };
}

function* streamBytes(answer: StreamAnswer, faults: Faults): Generator<Buffer> {
  let index = 0;
  for (const frame of answer.frames) {
    if (index === faults.error_after_chunks) {
      yield Buffer.from(answer.errorFrame);
      return;
    }
    yield Buffer.from(index === faults.malformed_after_chunks ? torn(frame) : frame);
    index += 1;
  }
  if (faults.no_done !== true && answer.closing !== '') yield Buffer.from(answer.closing);
}

/** A frame whose JSON stops halfway: still a frame, no longer JSON. */
function torn(frame: string): string {
  return `${frame.slice(0, Math.floor(frame.length / 2))}\n\n`;
}

function* cutEvenly(body: Buffer, parts: number): Generator<Buffer> {
  const size = Math.max(1, Math.ceil(body.length / parts));
  for (let start = 0; start < body.length; start += size) yield body.subarray(start, start + size);
}

/** Compresses piece by piece and flushes after each, so that every piece can be decoded when it arrives. */
async function* compressed(pieces: Iterable<Buffer>, encoding: 'gzip' | 'br'): AsyncGenerator<Buffer> {
  const encoder = encoding === 'gzip' ? createGzip() : createBrotliCompress(brotliOptions);
  let ready: Buffer[] = [];
  const take = (): Buffer => {
    const taken = Buffer.concat(ready);
    ready = [];
    return taken;
  };
  encoder.on('data', (chunk: Buffer) => ready.push(chunk));
  try {
    for (const piece of pieces) {
      encoder.write(piece);
      await new Promise<void>((resolve) => {
        encoder.flush(resolve);
      });
      yield take();
    }
    await new Promise<void>((resolve, reject) => {
      encoder.once('end', resolve).once('error', reject);
      encoder.end();
    });
    yield take();
  } finally {
    encoder.destroy();
  }
}
