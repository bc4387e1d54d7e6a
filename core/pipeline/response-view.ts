import type { AnswerText, AnswerTextPlace, Dialect } from '../dialects/dialect.ts';
import type { EndpointId } from '../dialects/endpoint.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import { headerValue, type HeaderList, withoutHeader } from '../ports/header-list.ts';
import type { JsonPath, JsonValue, Replacement, ResponseView } from './context.ts';
import { removeAt, replaceAllAt, setAt } from './json-splice.ts';
import { parseJson } from '../base/json.ts';

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
