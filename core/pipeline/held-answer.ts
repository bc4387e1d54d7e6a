import { isJsonType } from '../base/json.ts';
import { codingOf } from '../connection/content-encoding.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import { headerValue, withoutHeader } from '../ports/header-list.ts';
import { type Answer, collectSource, isStreamSource, ReplayedStream } from './answer.ts';
import type { AttemptContext, MaybePromise, ResponseView } from './context.ts';
import { Exchange } from './exchange.ts';
import { codecFor } from '../dialects/dialect.ts';
import { decodedBody } from './reply.ts';
import { EditableResponse } from './response-view.ts';

/** Longest answer that is held, in bytes. */
const maxBytes = 16 * 1024 * 1024;

/** The answer to an attempt, whole, before anything of it has left. */
export interface HeldAnswer {
  readonly response: ResponseView;
  /** It was streamed, and is streamed on. */
  readonly isStream: boolean;
  /** The answer to send: the very bytes that came, unless the response was changed. */
  answer(): Answer;
}

/**
 * Collects the answer to an attempt, streamed or not, so that it can be judged as a whole and changed. Undefined for an
 * answer without readable texts: a type other than JSON or events, an endpoint that is not modelled. Throws
 * `upstream_too_large` beyond 16 MiB, `upstream_invalid` for a stream with a frame that cannot be read.
 */
export async function holdAnswer(context: AttemptContext, answer: Answer): Promise<HeldAnswer | undefined> {
  if (!(context instanceof Exchange))
    throw new TypeError('Only answers to requests of the pipeline are held.');
  if (answer.body === null || answer.switched !== undefined) return undefined;
  if (!isStreamSource(answer.body)) return holdWhole(context, answer, answer.body);
  const codec = codecOf(context, answer);
  if (codec === undefined) return undefined;
  const collected = await collectSource(context, answer.body, maxBytes);
  const bytes = await decoded(answer, collected);
  const reader = codec.reader(context.endpoint.id);
  const found = [...reader.push(bytes), ...reader.finish()];
  if (found.some((frame) => frame.unread === true))
    throw new GatewayError(
      'upstream_invalid',
      "The provider's stream holds a frame that is torn, too long or malformed, and a guardrail may not let it pass unread.",
      { source: 'provider' },
    );
  const whole = Buffer.from(codec.assemble(context.endpoint.id, found, context.facts.usage));
  const setup = { status: answer.status, headers: answer.headers, bytes: whole };
  const response = new EditableResponse(setup, 'provider', context, true);
  return {
    response,
    isStream: true,
    answer() {
      const { status } = response;
      if (response.bytes === whole) return { ...answer, status, body: new ReplayedStream(collected) };
      const pieces = codec.disassemble(context.endpoint.id, response.bytes);
      return {
        ...answer,
        status,
        headers: withoutLength(response.headers),
        body: new ReplayedStream(Buffer.concat(pieces)),
      };
    },
  };
}

/** Whether the texts of a streamed answer can be read: its endpoint and its format are modelled. */
export function isReadable(context: AttemptContext, answer: Answer): boolean {
  return codecOf(context, answer) !== undefined;
}

function codecOf({ dialect, endpoint }: AttemptContext, answer: Answer) {
  if (answer.dialect === undefined || answer.switched !== undefined || !endpoint.modelled) return undefined;
  return codecFor(dialect.frames, headerValue(answer.headers, 'content-type'));
}

async function holdWhole(context: Exchange, answer: Answer, body: Buffer): Promise<HeldAnswer | undefined> {
  if (!isJsonType(headerValue(answer.headers, 'content-type'))) return undefined;
  const bytes = await decoded(answer, body);
  const setup = { status: answer.status, headers: answer.headers, bytes };
  const response = new EditableResponse(setup, answer.source ?? 'provider', context);
  if (response.json === undefined) return undefined;
  return {
    response,
    isStream: false,
    answer() {
      const { status } = response;
      if (response.bytes === bytes) return { ...answer, status };
      return { ...answer, status, headers: withoutLength(response.headers), body: response.bytes };
    },
  };
}

function decoded({ headers }: Answer, bytes: Buffer): MaybePromise<Buffer> {
  return decodedBody(codingOf(headerValue(headers, 'content-encoding')), bytes);
}

function withoutLength(headers: Answer['headers']): readonly string[] {
  return withoutHeader(withoutHeader(headers, 'content-length'), 'content-encoding');
}
