import { type Answer, ReplayedStream, type StreamSource } from '../../core/pipeline/answer.ts';
import type { AttemptContext } from '../../core/pipeline/context.ts';
import type { StoredAnswer } from './stored-answer.ts';
import { codecFor, type FrameCodec } from '../../core/dialects/dialect.ts';
import { chatEndpoints } from '../../core/dialects/endpoint.ts';
import { headerValue } from '../../core/ports/header-list.ts';

/** True when an answer can be converted between stream and JSON document. If not, each form has a key of its own. */
export function isConvertible({ dialect, endpoint }: AttemptContext): boolean {
  return dialect.frames !== undefined && chatEndpoints.has(endpoint.id);
}

/** Content type of the stream that this request requires. */
export function streamTypeOf({ dialect, query }: AttemptContext): string {
  return dialect.frames?.framings?.contentTypeFor(query) ?? 'text/event-stream';
}

/**
 * Body of a cached answer in the form that this request requires, with or without usage as it requires. Bytes in that
 * form already are returned unchanged. Undefined when the conversion is impossible.
 */
function bodyFor(context: AttemptContext, stored: StoredAnswer): Buffer | undefined {
  const { frames } = context.dialect;
  const streams = context.facts.stream;
  if (frames === undefined || !isConvertible(context)) {
    return (stored.form === 'stream') === streams ? stored.body : undefined;
  }
  try {
    return streams ? asStream(context, frames, stored) : asJson(context, frames, stored);
  } catch {
    // The codec cannot read this answer, so the request goes to the provider.
    return undefined;
  }
}

function asJson({ endpoint }: AttemptContext, frames: FrameCodec, stored: StoredAnswer): Buffer {
  const { form, body, usage } = stored;
  if (form === 'json') return body;
  const codec = codecFor(frames, storedType(stored));
  const reader = codec.reader(endpoint.id);
  return Buffer.from(codec.assemble(endpoint.id, [...reader.push(body), ...reader.finish()], usage));
}

function asStream(context: AttemptContext, frames: FrameCodec, stored: StoredAnswer): Buffer {
  const wantsUsage = requestsUsage(context);
  const missesUsage = wantsUsage && !stored.tellsUsage && stored.usage !== undefined;
  if (stored.form === 'json' || missesUsage || !isFramedAlike(context, stored)) {
    const whole = asJson(context, frames, stored);
    const codec = codecFor(frames, streamTypeOf(context));
    const stream = Buffer.concat(codec.disassemble(context.endpoint.id, whole));
    return wantsUsage ? stream : withoutUsage(context, stream);
  }
  return wantsUsage || !stored.tellsUsage ? stored.body : withoutUsage(context, stored.body);
}

/** True when the cached stream has the framing that this request requires. */
function isFramedAlike(context: AttemptContext, stored: StoredAnswer): boolean {
  if (context.dialect.frames?.framings === undefined) return true;
  return bareType(storedType(stored)) === streamTypeOf(context);
}

function storedType({ headers }: StoredAnswer): string {
  return headerValue(headers, 'content-type') ?? '';
}

function bareType(contentType: string): string {
  return (contentType.split(';')[0] as string).trim().toLowerCase();
}

function requestsUsage({ attempt }: AttemptContext): boolean {
  const { json } = attempt.body;
  if (typeof json !== 'object' || json === null || Array.isArray(json)) return false;
  const options = json['stream_options'];
  if (typeof options !== 'object' || options === null || Array.isArray(options)) return false;
  return options['include_usage'] === true;
}

function withoutUsage({ dialect }: AttemptContext, stream: Buffer): Buffer {
  const stripper = dialect.usageStripper?.();
  if (stripper === undefined) return stream;
  const pieces = [stripper.push(stream), stripper.finish()];
  return Buffer.concat(pieces.filter((piece) => piece !== undefined));
}

/** Bounds the bytes of all streams that are being collected, together. */
export class CollectingBudget {
  private readonly maxBytes: number;
  private held = 0;

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  take(bytes: number): boolean {
    if (this.held + bytes > this.maxBytes) return false;
    this.held += bytes;
    return true;
  }

  giveBack(bytes: number): void {
    this.held -= bytes;
  }
}

/** Bounds and callbacks of one collected stream. One callback is called at most; none when the stream breaks. */
interface Collecting {
  readonly maxBytes: number;
  readonly budget: CollectingBudget;
  /** Receives the complete stream, before the reader receives its end. */
  whole(bytes: Buffer): void;
  /** The stream exceeds a bound; its copy is dropped and it only passes through. */
  tooLong(): void;
}

/** The same stream, copied while it passes through. The copy delays nothing. */
export function collectStream(source: StreamSource, collecting: Collecting): StreamSource {
  const { budget, maxBytes } = collecting;
  let chunks: Buffer[] | undefined = [];
  let size = 0;

  const drop = (): void => {
    if (chunks === undefined) return;
    chunks = undefined;
    budget.giveBack(size);
  };
  const keep = (chunk: Buffer): void => {
    if (chunks === undefined) return;
    if (size + chunk.length > maxBytes || !budget.take(chunk.length)) {
      drop();
      collecting.tooLong();
      return;
    }
    size += chunk.length;
    chunks.push(chunk);
  };

  return {
    pipe(target) {
      source.pipe({
        data(chunk) {
          keep(chunk);
          return target.data(chunk);
        },
        end() {
          const kept = chunks;
          drop();
          if (kept !== undefined) collecting.whole(Buffer.concat(kept));
          target.end();
        },
        fail(error, told) {
          drop();
          target.fail(error, told);
        },
      });
    },
    resume: () => source.resume(),
    cancel(error) {
      drop();
      source.cancel(error);
    },
  };
}

/**
 * A cached answer as the answer to this request, with its age in seconds and its facts for the log: the model and the
 * finish reason, no tokens. Undefined when the request requires a form to which it cannot be converted.
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
