import type { TrustedHosts } from '../../core/base/host-rules.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import type { McpRemoteTarget, McpTarget, McpUpstream } from '../../core/ports/mcp.ts';
import type { Transport } from '../../core/ports/transport.ts';
import { admitUrl } from '../guarded-fetch/guarded-hop.ts';
import { HttpUpstream } from './http-upstream.ts';
import { OpenapiUpstream } from './openapi/openapi-upstream.ts';
import { createSseUpstream } from './sse-upstream.ts';
import { createStdioUpstream } from './stdio-upstream.ts';

/** What the ways to servers share. */
interface UpstreamSurroundings {
  readonly transport: Transport;
  readonly trusted: TrustedHosts;
  readonly log: Log;
  readonly clock: Clock;
}

/** The way to a server. Throws `address_refused`. */
export function createUpstream(target: McpTarget, around: UpstreamSurroundings): McpUpstream {
  if (target.type === 'stdio') return createStdioUpstream(target, around.log, around.clock);
  return target.type === 'openapi' ? new OpenapiUpstream(target, around) : remoteUpstream(target, around);
}

function remoteUpstream(target: McpRemoteTarget, { transport, trusted, clock }: UpstreamSurroundings) {
  const admitted = target.guarded
    ? admitUrl(target.url, trusted)
    : { url: new URL(target.url), trusted: true };
  const place = { url: admitted.url, guarded: !admitted.trusted, transport };
  return target.type === 'http' ? new HttpUpstream(place) : createSseUpstream({ ...place, clock });
}
