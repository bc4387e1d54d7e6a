import { anthropicError, geminiError, openaiError, type MockProblem } from './problem.ts';

/** A whole answer. */
export interface PlainAnswer {
  readonly kind: 'plain';
  readonly status: number;
  /** Flat, without `content-length`. */
  readonly headers: readonly string[];
  readonly body: Buffer;
}

/** An answer of server-sent events. Nothing is produced before it is asked for. */
export interface StreamAnswer {
  readonly kind: 'stream';
  readonly status: number;
  readonly headers: readonly string[];
  readonly frames: Iterable<string>;
  /** The end marker of the wire (`data: [DONE]`), left out by the fault `no_done`. */
  readonly closing: string;
  /** What this wire sends when the provider fails in mid-stream. */
  readonly errorFrame: string;
}

export type MockAnswer = PlainAnswer | StreamAnswer;

/** The wire format of an endpoint's errors. */
export type MockDialect = 'openai' | 'anthropic' | 'gemini';

const jsonHeaders = ['content-type', 'application/json'];
const streamHeaders = ['content-type', 'text/event-stream; charset=utf-8', 'cache-control', 'no-cache'];

/** An answer of JSON. */
export function jsonAnswer(value: unknown, status = 200, headers: readonly string[] = []): PlainAnswer {
  return {
    kind: 'plain',
    status,
    headers: [...jsonHeaders, ...headers],
    body: Buffer.from(JSON.stringify(value)),
  };
}

/** An answer of raw bytes. */
export function bytesAnswer(contentType: string, body: Buffer, headers: readonly string[] = []): PlainAnswer {
  return { kind: 'plain', status: 200, headers: ['content-type', contentType, ...headers], body };
}

/** A streamed answer; what is streamed before `closing` comes from `frames`. */
export function streamAnswer(
  frames: Iterable<string>,
  ending: { readonly closing: string; readonly errorFrame: string },
): StreamAnswer {
  return { kind: 'stream', status: 200, headers: streamHeaders, frames, ...ending };
}

const errors = { openai: openaiError, anthropic: anthropicError, gemini: geminiError };

/** An error answer in the shape of the dialect. */
export function problemAnswer(problem: MockProblem, dialect: MockDialect): PlainAnswer {
  return jsonAnswer(errors[dialect](problem), problem.status, problem.headers);
}

/** A frame that holds only data, as OpenAI's chat stream sends it. */
export function dataFrame(value: unknown): string {
  return `data: ${JSON.stringify(value)}\n\n`;
}

/** A frame that names its event, as Anthropic and OpenAI's responses send it. */
export function namedFrame(event: string, value: unknown): string {
  return `event: ${event}\ndata: ${JSON.stringify(value)}\n\n`;
}
