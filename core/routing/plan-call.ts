import type { ProviderDialect } from '../dialects/dialect.ts';
import type { DialectName } from '../dialects/endpoint.ts';
import type { HostFacts } from '../dialects/host-facts.ts';
import type { UpstreamCallFacts, UpstreamPlan } from '../dialects/upstream-plan.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import type { Target } from '../pipeline/router.ts';

/** The provider's side of every wire, by name. */
export type ProviderDialects = ReadonlyMap<DialectName, ProviderDialect>;

/** Every plan but a refusal. */
export type ServedPlan = Exclude<UpstreamPlan, { readonly kind: 'refuse' }>;

/** What the codecs may know of the target, for this request's model. */
export function hostFacts(target: Target, model: string): HostFacts {
  return {
    provider: target.provider,
    model,
    quirks: target.quirks,
    usageInStream: target.usageInStream,
    settings: target.settings,
  };
}

/** What of a request decides how it reaches its target. */
export interface PlannedCall extends Pick<Exchange, 'endpoint' | 'method' | 'path' | 'query'> {
  readonly dialect: Pick<Exchange['dialect'], 'name'>;
  readonly facts: Pick<Exchange['facts'], 'stream'>;
}

/** How this request reaches its target. Throws `not_supported` when the target has no such operation. */
export function planCall(
  exchange: PlannedCall,
  target: Target,
  host: HostFacts,
  wires: ProviderDialects,
): ServedPlan {
  const { path, query } = exchange;
  if (target.alsoSpeaks.includes(exchange.dialect.name)) return { kind: 'pass', path: path + query };
  const wire = wires.get(target.dialect);
  if (wire === undefined) throw new Error(`The dialect "${target.dialect}" is missing.`);
  const plan = wire.plan(callFacts(exchange, host));
  if (plan.kind === 'refuse') throw new GatewayError('not_supported', plan.message, { param: 'provider' });
  return plan;
}

/** What a wire may know of a request when it plans it. */
export function callFacts(
  { dialect, endpoint, method, path, query, facts }: PlannedCall,
  host: HostFacts,
): UpstreamCallFacts {
  return { endpoint: endpoint.id, spoken: dialect.name, method, path, query, stream: facts.stream, host };
}
