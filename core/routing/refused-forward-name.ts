import { credentialHeaders, headersSetAnew, hopByHopHeaders, isHeaderName } from '../base/header-names.ts';

const credentials: ReadonlySet<string> = new Set([...credentialHeaders, 'cookie', 'proxy-authorization']);

/** With these, servers in a cloud ask its metadata service for credentials. */
const cloudMetadata: ReadonlySet<string> = new Set([
  'metadata',
  'metadata-flavor',
  'x-google-metadata-request',
  'x-aws-ec2-metadata-token',
  'x-aws-ec2-metadata-token-ttl-seconds',
  'x-aliyun-ecs-metadata-token',
  'x-aliyun-ecs-metadata-token-ttl-seconds',
  'x-identity-header',
]);

/**
 * Why a client's header must not be among those that reach a provider in any case (`forward_headers` of a config, the
 * `forward-headers` header), as the end of a sentence without its full stop; undefined for a name that may. In any case
 * of letters. `servicePrefixes` are the gateway's own, each with its dash (`x-service-`).
 */
export function refusedForwardName(
  name: string,
  servicePrefixes: readonly string[] = [],
): string | undefined {
  if (!isHeaderName(name)) return 'it is no name of a header';
  const lower = name.toLowerCase();
  if (lower === 'forward-headers' || servicePrefixes.some((prefix) => lower.startsWith(prefix)))
    return 'headers for the gateway itself never go to a provider';
  if (credentials.has(lower))
    return 'credentials are never forwarded; give the provider a credential of its own';
  if (cloudMetadata.has(lower)) return 'it opens metadata services of clouds';
  if (hopByHopHeaders.has(lower)) return 'it belongs to one connection';
  return headersSetAnew.has(lower) ? 'the gateway sets it anew for every provider' : undefined;
}
