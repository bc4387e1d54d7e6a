import { isJsonType, parseJson } from '../base/json.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import { codingOf } from '../connection/content-encoding.ts';
import { type HeaderList, headerValue, withoutHeader } from '../ports/header-list.ts';
import { type Answer, collectSource, isStreamSource, ReplayedStream } from './answer.ts';
import type {
  AttemptContext,
  JsonPath,
  JsonValue,
  MaybePromise,
  Replacement,
  ResponseView,
} from './context.ts';
import { Exchange } from './exchange.ts';
import { type AnswerText, type AnswerTextPlace, codecFor, type Dialect } from '../dialects/dialect.ts';
import { decodedBody } from './settle.ts';
import type { EndpointId } from '../dialects/endpoint.ts';
import { removeAt, replaceAllAt, setAt } from './json-splice.ts';

/** The wire of an answer, for reading its texts. */
interface AnswerWire {
  readonly dialect: Pick<Dialect, 'decodeAnswerTexts'>;
  readonly endpoint: { readonly id: EndpointId };
}

/** A complete answer behind `context.response`; parsed on first use, changed by splicing. */
export class EditableResponse implements ResponseView {
  status: number;
  headers: HeaderList;
  bytes: Buffer;
  readonly source: 'gateway' | 'provider';
  readonly streamed: boolean;
  private decodedText: string | undefined;
  private parsed: { readonly value: JsonValue | undefined } | undefined;
  private readonly wire: AnswerWire;
  private decodedTexts: readonly AnswerTextPlace[] | undefined;

  constructor(
    answer: { readonly status: number; readonly headers: HeaderList; readonly bytes: Buffer },
    source: 'gateway' | 'provider',
    wire: AnswerWire,
    streamed = false,
  ) {
    this.status = answer.status;
    this.headers = answer.headers;
    this.bytes = answer.bytes;
    this.source = source;
    this.wire = wire;
    this.streamed = streamed;
  }

  get text(): string {
    this.decodedText ??= this.bytes.toString('utf8');
    return this.decodedText;
  }

  get json(): JsonValue | undefined {
    this.parsed ??= { value: parseJson(this.text) };
    return this.parsed.value;
  }

  set(path: JsonPath, value: JsonValue): void {
    if (this.json === undefined)
      throw new GatewayError('upstream_invalid', 'The answer is no JSON and cannot be changed.');
    this.replace(setAt(this.text, path, value));
  }

  remove(path: JsonPath): void {
    if (this.json === undefined) return;
    this.replace(removeAt(this.text, path));
  }

  get texts(): readonly AnswerTextPlace[] {
    const { dialect, endpoint } = this.wire;
    this.decodedTexts ??= dialect.decodeAnswerTexts(endpoint.id, this.json);
    return this.decodedTexts;
  }

  setText(part: AnswerText, text: string): void {
    const isMeant = ({ path }: AnswerText): boolean =>
      path.length === part.path.length && path.every((step, i) => step === part.path[i]);
    if (!this.texts.some(isMeant))
      throw new RangeError(`The answer has no text at /${part.path.join('/')}: take one of its texts.`);
    this.setTexts((one) => (isMeant(one) ? text : one.text));
  }

  setTexts(change: (part: AnswerText) => string): void {
    const replacements = new Map<string, Replacement>();
    const put = (path: JsonPath, value: JsonValue): void =>
      void replacements.set(path.join('/'), { path, value });
    for (const part of this.texts) {
      const text = change(part);
      if (text === part.text) continue;
      put(part.path, part.isJson === true ? asArguments(text) : text);
      for (const { path, value } of part.beside)
        put(path, value === 'same' ? text : Array.isArray(value) ? [] : (value as '' | null));
    }
    if (replacements.size > 0) this.replace(replaceAllAt(this.text, [...replacements.values()]));
  }

  setHeader(name: string, value: string): void {
    this.removeHeader(name);
    this.headers = [...this.headers, name, value];
  }

  removeHeader(name: string): void {
    const lower = name.toLowerCase();
    if (headerValue(this.headers, lower) === undefined) return;
    this.headers = withoutHeader(this.headers, lower);
  }

  private replace(text: string): void {
    if (text === this.decodedText) return;
    this.decodedText = text;
    this.bytes = Buffer.from(text, 'utf8');
    this.parsed = undefined;
    this.decodedTexts = undefined;
  }
}

/** Arguments of a call on a wire that keeps them as an object. */
function asArguments(text: string): JsonValue {
  const value = parseJson(text === '' ? '{}' : text);
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
  throw new GatewayError(
    'upstream_invalid',
    'The arguments of a tool call were changed into something that is no JSON object, which this API cannot say.',
  );
}

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
