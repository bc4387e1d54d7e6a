import type { FrameCodec } from '../../core/dialects/dialect.ts';
import type { EndpointId } from '../../core/dialects/endpoint.ts';
import type { AttemptContext } from '../../core/pipeline/context.ts';
import { headerValue } from '../../core/ports/header-list.ts';
import type { StoredAnswer } from './stored-answer.ts';

/** Endpoints whose answers are one JSON document or a stream of it, as the request asks. */
const ofTwoForms: ReadonlySet<EndpointId> = new Set([
  'chat.completions',
  'completions',
  'responses',
  'messages',
  'generate-content',
]);

/** Whether one form of an answer can be made of the other. If not, each form has a key of its own. */
export function isConvertible({ dialect, endpoint }: AttemptContext): boolean {
  return dialect.frames !== undefined && ofTwoForms.has(endpoint.id);
}

/** Content type of the stream that this request asks for. */
export function streamTypeOf({ dialect, query }: AttemptContext): string {
  return dialect.frames?.framings?.contentTypeFor(query) ?? 'text/event-stream';
}

/**
 * The body of a kept answer in the form that this request asks for, with or without usage as it asks. The very bytes
 * where they are that already. Undefined when that form cannot be made of it.
 */
export function bodyFor(context: AttemptContext, stored: StoredAnswer): Buffer | undefined {
  const { frames } = context.dialect;
  const streams = context.facts.stream;
  if (frames === undefined || !isConvertible(context)) {
    return (stored.form === 'stream') === streams ? stored.body : undefined;
  }
  try {
    return streams ? asStream(context, frames, stored) : asJson(context, frames, stored);
  } catch {
    // What the codec cannot read cannot be replayed in another form; the provider can still be asked.
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
  const wantsUsage = asksForUsage(context);
  const missesUsage = wantsUsage && !stored.tellsUsage && stored.usage !== undefined;
  if (stored.form === 'json' || missesUsage || !isFramedAlike(context, stored)) {
    const whole = asJson(context, frames, stored);
    const codec = codecFor(frames, streamTypeOf(context));
    const stream = Buffer.concat(codec.disassemble(context.endpoint.id, whole));
    return wantsUsage ? stream : withoutUsage(context, stream);
  }
  return wantsUsage || !stored.tellsUsage ? stored.body : withoutUsage(context, stored.body);
}

/** The kept stream has the framing that this request asks for. */
export function isFramedAlike(context: AttemptContext, stored: StoredAnswer): boolean {
  if (context.dialect.frames?.framings === undefined) return true;
  return bareType(storedType(stored)) === streamTypeOf(context);
}

function codecFor(frames: FrameCodec, contentType: string): FrameCodec {
  return frames.framings?.codecFor(contentType) ?? frames;
}

function storedType({ headers }: StoredAnswer): string {
  return headerValue(headers, 'content-type') ?? '';
}

function bareType(contentType: string): string {
  return (contentType.split(';')[0] as string).trim().toLowerCase();
}

function asksForUsage({ attempt }: AttemptContext): boolean {
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
