import { describeValue } from '../../config/describe-schema.ts';
import { didYouMean, quoted } from '../../base/did-you-mean.ts';
import type { JsonValue } from '../../pipeline/context.ts';
import { isJsonObject, parseJson } from '../../base/json.ts';

/** A request for `weir explain`. */
export interface RequestFile {
  /** Default `POST`. */
  readonly method: string;
  /** As a client sends it, with its query. Default `/v1/chat/completions`. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** JSON, or a text that is sent unchanged. */
  readonly body: JsonValue | undefined;
}

const members = ['method', 'path', 'headers', 'body'];

/** Reads `{ method?, path?, headers?, body? }`. Throws an error that names the problem. */
export function readRequestFile(text: string): RequestFile {
  const value = parseJson(text);
  if (!isJsonObject(value))
    throw new Error('is no JSON object; write { "path": "/v1/chat/completions", "headers": {}, "body": {} }');
  const stray = Object.keys(value).find((name) => !members.includes(name));
  if (stray !== undefined) {
    const near = didYouMean(stray, members);
    const hint =
      near === undefined ? 'a body as clients send it stands under "body"' : `did you mean ${quoted(near)}?`;
    throw new Error(`holds ${quoted(stray)}, and a request has ${members.join(', ')}; ${hint}`);
  }
  const { method = 'POST', path = '/v1/chat/completions', headers = {}, body } = value;
  if (typeof method !== 'string') throw new Error(`"method" is a text, not ${describeValue(method)}`);
  if (typeof path !== 'string' || !path.startsWith('/'))
    throw new Error('"path" is a text that begins with "/"');
  if (!isJsonObject(headers)) throw new Error(`"headers" is an object, not ${describeValue(headers)}`);
  return {
    method: method.toUpperCase(),
    path,
    headers: textsOf(headers),
    body: body,
  };
}

/** Headers as texts. An object, such as metadata, becomes its JSON. */
function textsOf(headers: Readonly<Record<string, unknown>>): Record<string, string> {
  const texts: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (isJsonObject(value)) texts[name] = JSON.stringify(value);
    else if (typeof value === 'string') texts[name] = value;
    else if (typeof value === 'number' || typeof value === 'boolean') texts[name] = String(value);
    else throw new Error(`the header ${quoted(name)} is a text, not ${describeValue(value)}`);
  }
  return texts;
}
