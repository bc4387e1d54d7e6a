import type { MaybePromise } from './context.ts';
import type { RequestStep } from './compile.ts';
import type { Endpoint } from '../dialects/endpoint.ts';
import type { LazyBody } from './request-body.ts';

/** What decides whether a body is loaded. */
export interface BodyHolder {
  readonly body: LazyBody;
  readonly endpoint: Endpoint;
  header(name: string): string | undefined;
}

/**
 * Brings a body into memory for a hook that needs it. Uploads have nothing to tell a hook that reads JSON or text,
 * and would only fill the memory: they stay unread.
 */
export function loadBody(request: BodyHolder, need: RequestStep['loadsBody']): MaybePromise<void> {
  if (need === 'never' || request.body.loaded) return;
  if (need === 'always' || mayHoldJson(request)) return request.body.bring();
  request.body.passUnread();
}

/** What a modelled endpoint gets is JSON, whatever it calls itself; elsewhere a missing or odd type may still be JSON. */
function mayHoldJson(request: BodyHolder): boolean {
  if (request.endpoint.modelled || !request.body.present) return true;
  return !/^\s*((multipart|audio|image|video)\/|application\/octet-stream)/i.test(
    request.header('content-type') ?? '',
  );
}
