import { describeValue } from '../../config/describe-schema.ts';
import { didYouMean, quoted } from '../../base/did-you-mean.ts';
import type { SampleRequest } from '../../pipeline/router.ts';
import { isJsonObject, parseJson } from '../../base/json.ts';

const members = ['method', 'path', 'headers', 'body'];

/** Reads `{ method?, path?, headers?, body? }`; by default a POST of `/v1/chat/completions`. Throws an error that names the problem. */
export function readRequestFile(text: string): SampleRequest {
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
