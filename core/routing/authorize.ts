import { isPromise } from '../pipeline/call-hook.ts';
import type { Credentials } from '../ports/credentials.ts';
import type { UpstreamRequest } from '../ports/transport.ts';

/** The request with the headers that the credentials add; each replaces those of its name. A promise only when a token has to be fetched. */
export function authorized(
  request: UpstreamRequest,
  credentials: Credentials,
): UpstreamRequest | Promise<UpstreamRequest> {
  const { method, origin, path, headers, body } = request;
  const signable = { method, origin, path, headers, body: body instanceof Uint8Array ? body : null };
  const added = credentials.authorize(signable);
  return isPromise(added) ? added.then((list) => withHeaders(request, list)) : withHeaders(request, added);
}

function withHeaders(request: UpstreamRequest, added: readonly string[]): UpstreamRequest {
  const names = new Set<string>();
  for (let i = 0; i < added.length; i += 2) names.add((added[i] as string).toLowerCase());
  const kept: string[] = [];
  const { headers } = request;
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] as string;
    if (!names.has(name.toLowerCase())) kept.push(name, headers[i + 1] as string);
  }
  return { ...request, headers: [...kept, ...added] };
}
