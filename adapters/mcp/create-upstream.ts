import type { TrustedHosts } from '../../core/base/host-rules.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import type { McpRemoteTarget, McpTarget, McpUpstream } from '../../core/ports/mcp.ts';
import type { Transport } from '../../core/ports/transport.ts';
import { admitUrl } from '../guarded-fetch/guarded-hop.ts';
import { HttpUpstream } from './http-upstream.ts';
import { OpenapiUpstream } from './openapi/openapi-upstream.ts';
import { createSseUpstream } from './sse-upstream.ts';

/** What the ways to servers share. */
export interface UpstreamSurroundings {
  readonly transport: Transport;
  readonly trusted: TrustedHosts;
  readonly log: Log;
  readonly clock: Clock;
}

/** The way to a server. Throws `address_refused`. */
export function createUpstream(target: McpTarget, around: UpstreamSurroundings): McpUpstream {
  if (target.type === 'http' || target.type === 'sse') return remoteUpstream(target, around);
  if (target.type === 'openapi') return new OpenapiUpstream(target, around);
  throw new GatewayError('not_supported', `The transport ${target.type} of MCP servers is not there yet.`);
}

function remoteUpstream(target: McpRemoteTarget, { transport, trusted, clock }: UpstreamSurroundings) {
  const admitted = target.guarded
    ? admitUrl(target.url, trusted)
    : { url: new URL(target.url), trusted: true };
  const place = { url: admitted.url, guarded: !admitted.trusted, transport };
  return target.type === 'http' ? new HttpUpstream(place) : createSseUpstream({ ...place, clock });
}
