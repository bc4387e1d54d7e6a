import { jsonAnswer, type MockAnswer } from '../answer.ts';
import type { MockRequest } from '../context.ts';
import { carriesSecret, maskedHeaders } from '../mask.ts';

/** Any path that no endpoint knows: says what arrived, credentials masked. */
export function echo(request: MockRequest): MockAnswer {
  return jsonAnswer({
    object: 'mock.echo',
    method: request.method,
    path: request.path,
    query: grouped([...request.query].map(([name, value]) => [name, carriesSecret(name) ? '***' : value])),
    headers: grouped(maskedHeaders(request.headers)),
    body_bytes: request.body.size,
    body_sha256: request.body.digest(),
  });
}

/** By name; a name that came more than once holds the list of its values. */
function grouped(pairs: readonly (readonly [string, string])[]): Record<string, string | string[]> {
  const byName = new Map<string, string | string[]>();
  for (const [name, value] of pairs) {
    const before = byName.get(name);
    byName.set(name, before === undefined ? value : [before, value].flat());
  }
  return Object.fromEntries(byName);
}
