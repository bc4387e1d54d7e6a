import { readSseFrame } from '../../core/base/sse.ts';
import type { FinishReason } from '../../core/dialects/canonical/chat-answer.ts';
import type { DialectName } from '../../core/dialects/endpoint.ts';
import type { JsonObject } from '../../adapters/dialects/json-reading.ts';

/** One tool call as a client sees it. */
export interface HeardCall {
  readonly id: string;
  readonly name: string;
  /** JSON text. */
  readonly arguments: string;
}

/** Tokens as a client counts them: the prompt with its cached part, the completion with its thoughts. */
export interface HeardUsage {
  readonly prompt: number;
  readonly completion: number;
  readonly cached: number;
  /** Undefined where the wire does not report it. */
  readonly reasoning: number | undefined;
}

/** An answer as a client that knows only its wire understands it. */
export interface Heard {
  text: string;
  reasoning: string;
  readonly signatures: string[];
  readonly calls: HeardCall[];
  refusal: string;
  /** Addresses of the sources that the answer cites. */
  readonly sources: string[];
  /** The words of the answer that citations mark, where the wire marks them. */
  readonly cited: string[];
  /** The wire's own word. */
  finish: string;
  usage: HeardUsage | undefined;
  error: string | undefined;
  /** The answer has its wire's end marker. */
  ended: boolean;
  /** Breaches of the wire's grammar. */
  readonly problems: string[];
}

/** An empty answer, before its first part. */
export function nothingHeard(): Heard {
  return {
    text: '',
    reasoning: '',
    signatures: [],
    calls: [],
    refusal: '',
    sources: [],
    cited: [],
    finish: '',
    usage: undefined,
    error: undefined,
    ended: false,
    problems: [],
  };
}

/** One server-sent event. */
export interface Frame {
  /** Empty when it has none. */
  readonly event: string;
  readonly data: string;
}

/** A client of one wire that reads its answers. */
export interface Listener {
  readonly dialect: DialectName;
  path(model: string, stream: boolean): string;
  hear(answer: JsonObject): Heard;
  hearStream(frames: readonly Frame[]): Heard;
  /** Message of an error answer; undefined when it does not have this wire's shape. */
  hearError(answer: JsonObject): string | undefined;
}

/** A caller that holds a conversation over one wire. */
export interface WireClient extends Listener {
  readonly name: 'chat' | 'responses' | 'messages' | 'gemini';
  /** The request file's content with model and stream, in the form of this wire. */
  body(request: JsonObject, model: string, stream: boolean): JsonObject;
  /** The next request: the conversation with this answer as it came, and this result of its first call. */
  next(request: JsonObject, answer: JsonObject, result: string): JsonObject;
  /** The word for a finish reason. */
  readonly finishWords: Readonly<Partial<Record<FinishReason, string>>>;
}

/** A text of the wire; empty for everything else. */
export function words(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** The events of a body of server-sent events; a last piece without its blank line is left out. */
export function framesOf(body: Buffer): readonly Frame[] {
  return body
    .toString('utf8')
    .split(/\r\n\r\n|\n\n/)
    .slice(0, -1)
    .flatMap((text) => {
      const { event, data } = readSseFrame(Buffer.from(`${text}\n\n`));
      return data === undefined ? [] : [{ event, data }];
    });
}
