import type { FrameCodec } from '../../core/dialects/dialect.ts';
import type { AttemptContext } from '../../core/pipeline/context.ts';
import type { StoredAnswer } from './stored-answer.ts';

/** Whether one form of an answer can be made of the other. If not, each form has a key of its own. */
export function isConvertible({ dialect, endpoint }: AttemptContext): boolean {
  return (
    dialect.frames !== undefined && (endpoint.id === 'chat.completions' || endpoint.id === 'completions')
  );
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

function asJson(
  { endpoint }: AttemptContext,
  codec: FrameCodec,
  { form, body, usage }: StoredAnswer,
): Buffer {
  if (form === 'json') return body;
  const reader = codec.reader(endpoint.id);
  const frames = [...reader.push(body), ...reader.finish()];
  return Buffer.from(codec.assemble(endpoint.id, frames, usage));
}

function asStream(context: AttemptContext, codec: FrameCodec, stored: StoredAnswer): Buffer {
  const wantsUsage = asksForUsage(context);
  const missesUsage = wantsUsage && !stored.tellsUsage && stored.usage !== undefined;
  if (stored.form === 'json' || missesUsage) {
    const whole = asJson(context, codec, stored);
    const stream = Buffer.concat(codec.disassemble(context.endpoint.id, whole));
    return wantsUsage ? stream : withoutUsage(context, stream);
  }
  return wantsUsage || !stored.tellsUsage ? stored.body : withoutUsage(context, stored.body);
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
