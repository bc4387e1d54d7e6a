import type { RequestContext } from '../pipeline/context.ts';

const json = /^application\/(?:[\w.+-]+\+)?json\b/i;

/** The request says that its body is JSON. */
export function saysJson(context: Pick<RequestContext, 'header'>): boolean {
  return json.test(context.header('content-type') ?? '');
}
