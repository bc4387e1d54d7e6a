import type { RequestContext } from '../../core/pipeline/plugin.ts';

/**
 * Where links lead: to `publicUrl` (`server.public_url`), without one to the address under which the request came. No
 * slash behind it.
 */
export function publicOrigin(context: RequestContext, publicUrl: string | undefined): string {
  return publicUrl?.replace(/\/+$/, '') ?? `http://${context.header('host') ?? 'localhost'}`;
}
