import type { GatewayConfig } from '../../config/schema.ts';
import { servicePrefixes } from '../../config/service-prefixes.ts';
import { isPromise } from '../../pipeline/call-hook.ts';
import type { MaybePromise } from '../../pipeline/context.ts';
import type { Exchange } from '../../pipeline/exchange.ts';
import { TrustedHosts } from '../../base/host-rules.ts';
import type { Target } from '../../pipeline/router.ts';
import type { CompiledConfig, PlanLeaf, PlanNode, StrategyMode } from '../plan/plan-node.ts';
import type { SharedEnvironment } from '../plan/request-environment.ts';
import { namesProvider, requestTarget, takeAddress } from '../request-target.ts';
import { leafTarget } from '../resolve-target.ts';
import type { KnownProvider } from '../targets.ts';
import { offlineExchange, type OfflineSetup } from './offline-exchange.ts';
import { previewPlan, type PlanPreview, type TryPreview } from './plan-preview.ts';
import type { RequestFile } from './request-file.ts';
import { previewTarget, type TargetPreview } from './target-preview.ts';

/** What a plan is worked out with. */
export interface OfflineParts extends Pick<OfflineSetup, 'dialects' | 'clock'> {
  readonly gateway: GatewayConfig;
  /** Every provider that can be addressed, `compileTargets`. */
  readonly known: ReadonlyMap<string, KnownProvider>;
  readonly shared: Omit<SharedEnvironment, 'serviceOf'>;
}

/** How a request would go through a config, and what could not be known. */
export interface OfflinePlan extends Omit<PlanPreview, 'tries'> {
  readonly config: CompiledConfig;
  readonly request: RequestFile;
  readonly tries: readonly (TryPreview & { readonly target: TargetPreview })[];
  /** Sentences on what was assumed. */
  readonly assumptions: readonly string[];
}

/** Works out a plan without asking anybody. Throws a `GatewayError` for headers that cannot be used. */
export async function offlinePlan(
  request: RequestFile,
  config: CompiledConfig,
  { gateway, known, shared, dialects, clock }: OfflineParts,
): Promise<OfflinePlan> {
  const { server, security } = gateway;
  const prefixes = servicePrefixes(server);
  const exchange = await offlineExchange(request, { dialects, clock, prefixes, basePath: server.base_path });
  const rules = {
    known,
    trustedHosts: new TrustedHosts(security.trusted_hosts),
    headerPrefix: server.header_prefix,
    keyPrefix: security.key_prefix,
  };
  const isComplete = config.leaves.every(({ provider }) => provider !== undefined);
  if (!isComplete && !namesProvider(exchange)) await takeAddress(exchange, rules);
  const targetOf = (one: Exchange, { provider, settings }: PlanLeaf): Target => {
    const { apiKey, fields, customHost } = settings;
    const brought = { apiKey, fields, customHost, inline: config.slug === undefined };
    return atOnce(
      provider !== undefined
        ? leafTarget(one, provider, rules, brought)
        : requestTarget(one, rules, undefined, brought),
    );
  };
  const serviceOf = ({ provider }: PlanLeaf): string => {
    const name = provider?.name.replace(/^@/, '') ?? '';
    return known.get(name)?.row.service ?? name;
  };
  const { branches, tries, refused } = previewPlan(exchange, config, {
    ...{ state: shared.state, breakers: shared.breakers, prices: shared.prices },
    ...{ random: () => shared.random(), serviceOf },
  });
  return {
    ...{ config, request, branches, refused },
    tries: tries.map((one) => ({ ...one, target: previewTarget(exchange, one.leaf, targetOf) })),
    assumptions: assumptionsOf(config),
  };
}

/** Only secrets that stores refer to are waited for, and offline there is no store. */
function atOnce(target: MaybePromise<Target>): Target {
  if (isPromise(target)) throw new Error('A target that has to be waited for cannot be shown offline.');
  return target;
}

function assumptionsOf({ root, leaves }: CompiledConfig): readonly string[] {
  const modes = new Set<StrategyMode>();
  let sticky = false;
  const look = (node: PlanNode): void => {
    if (node.kind === 'leaf') return;
    modes.add(node.strategy.mode);
    sticky ||= node.strategy.mode === 'loadbalance' && node.strategy.sticky !== undefined;
    node.children.forEach(look);
  };
  look(root);
  const assumptions = ['Nothing was sent. Every try is taken to fail, so that all of the plan is seen.'];
  if (leaves.some(({ breaker }) => breaker !== undefined))
    assumptions.push('Breakers are unknown offline and taken as closed.');
  if (modes.has('least-latency')) assumptions.push('Latencies are unknown offline: no target was measured.');
  if (modes.has('round-robin')) assumptions.push('Turns are unknown offline: this is the first one.');
  if (sticky) assumptions.push('Sticky assignments are unknown offline: none was made before.');
  if (sticky || modes.has('conditional') || modes.has('canary'))
    assumptions.push('The caller is unknown offline: fields of "api_key" have no value.');
  return assumptions;
}
