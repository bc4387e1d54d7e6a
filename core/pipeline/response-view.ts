import { headerValue, type HeaderList } from '../ports/header-list.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { JsonPath, JsonValue, ResponseView } from './context.ts';
import { removeAt, setAt } from './json-splice.ts';
import { parseJson } from './parse-json.ts';

/** A complete answer behind `context.response`; parsed on first use, changed by splicing. */
export class EditableResponse implements ResponseView {
  status: number;
  headers: HeaderList;
  bytes: Buffer;
  readonly source: 'gateway' | 'provider';
  readonly streamed: boolean;
  private decodedText: string | undefined;
  private parsed: { readonly value: JsonValue | undefined } | undefined;

  constructor(
    status: number,
    headers: HeaderList,
    bytes: Buffer,
    source: 'gateway' | 'provider',
    streamed = false,
  ) {
    this.status = status;
    this.headers = headers;
    this.bytes = bytes;
    this.source = source;
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
  }
}

/** The list without every occurrence of one header (`name` in lower case). */
export function withoutHeader(headers: HeaderList, name: string): string[] {
  const kept: string[] = [];
  for (let i = 0; i < headers.length; i += 2) {
    if ((headers[i] as string).toLowerCase() !== name)
      kept.push(headers[i] as string, headers[i + 1] as string);
  }
  return kept;
}
