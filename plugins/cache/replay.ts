import type { Answer, StreamSource, StreamTarget } from '../../core/pipeline/answer.ts';
import type { AttemptContext } from '../../core/pipeline/context.ts';
import { bodyFor, isFramedAlike, streamTypeOf } from './convert.ts';
import type { StoredAnswer } from './stored-answer.ts';

/** How much of a replayed stream is handed on at once. */
const pieceBytes = 16 * 1024;

/**
 * A kept answer as the answer to this request, with its age in seconds, and what the log should know of it: the model
 * and the finish reason, no tokens. Undefined when the request wants a form that cannot be made of it.
 */
export function replay(context: AttemptContext, stored: StoredAnswer, now: number): Answer | undefined {
  const body = bodyFor(context, stored);
  if (body === undefined) return undefined;
  const { facts, endpoint } = context;
  facts.modelAnswered = stored.model;
  facts.finishReason = stored.finishReason;
  const streams = body === stored.body ? stored.form === 'stream' : facts.stream;
  const age = Math.max(0, Math.floor((now - stored.storedAt) / 1000));
  const headers: string[] = [];
  for (const item of typed(context, stored, streams)) headers.push(item);
  headers.push('age', String(age));
  return streams
    ? { status: 200, headers, source: 'provider', body: new ReplayedStream(body), dialect: endpoint.dialect }
    : { status: 200, headers, source: 'provider', body, isJson: true };
}

function typed(context: AttemptContext, stored: StoredAnswer, streams: boolean): readonly string[] {
  const { form, headers } = stored;
  if ((form === 'stream') === streams && (!streams || isFramedAlike(context, stored))) return headers;
  const others: string[] = [];
  for (let i = 0; i < headers.length; i += 2) {
    if (headers[i] !== 'content-type') others.push(headers[i] as string, headers[i + 1] as string);
  }
  const type = streams ? `${streamTypeOf(context)}; charset=utf-8` : 'application/json';
  return ['content-type', type, ...others];
}

/** Bytes as a stream, at the pace of whoever reads it. */
export class ReplayedStream implements StreamSource {
  private readonly bytes: Buffer;
  private target: StreamTarget | undefined;
  private sent = 0;
  private flowing = false;

  constructor(bytes: Buffer) {
    this.bytes = bytes;
  }

  pipe(target: StreamTarget): void {
    this.target = target;
    this.resume();
  }

  resume(): void {
    // A target may ask for more while it is being given some.
    if (this.flowing) return;
    this.flowing = true;
    let room = true;
    while (room && this.target !== undefined && this.sent < this.bytes.length) {
      const piece = this.bytes.subarray(this.sent, this.sent + pieceBytes);
      this.sent += piece.length;
      room = this.target.data(piece);
    }
    this.flowing = false;
    if (this.target === undefined || this.sent < this.bytes.length) return;
    const { target } = this;
    this.target = undefined;
    target.end();
  }

  cancel(): void {
    this.target = undefined;
  }
}
