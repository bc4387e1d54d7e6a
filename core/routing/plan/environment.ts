import type { PlanTrace } from '../../pipeline/decision-trace.ts';
import { type ParamEdits, withModelPrefix } from '../params/apply-param-edits.ts';
import { type FieldPath, readField, type RequestFields } from './field-path.ts';
import type { PlanBranch, PlanEnvironment, PlanLeaf } from './plan-node.ts';
import type { Exchange } from '../../pipeline/exchange.ts';
import type { PricedModels, Prices } from '../../ports/prices.ts';
import type { Breakers } from '../attempts/breakers.ts';
import { estimatedUsage } from '../../pipeline/estimated-usage.ts';
import type { RoutingState } from './routing-state.ts';
import { callerKey } from '../../pipeline/keys.ts';

/** Dependencies that the plans of all requests share. */
export interface SharedEnvironment {
  readonly state: RoutingState;
  readonly breakers: Pick<Breakers, 'isOpen'>;
  readonly prices: Prices;
  /** A number of at least 0 and below 1. */
  random(): number;
  /**
   * Kind of the provider that a target names (`openai`), or its integration's prices of this model; empty when the
   * request names the provider.
   */
  serviceOf(leaf: PlanLeaf, exchange: Exchange, model: string): string | PricedModels;
}

/** Environment of the strategies for one request. */
export class RequestEnvironment implements PlanEnvironment {
  readonly trace: PlanTrace | undefined;
  private readonly exchange: Exchange;
  private readonly shared: SharedEnvironment;
  private fields: RequestFields | undefined;

  constructor(exchange: Exchange, shared: SharedEnvironment, trace: PlanTrace | undefined) {
    this.exchange = exchange;
    this.shared = shared;
    this.trace = trace;
  }

  random(): number {
    return this.shared.random();
  }

  field(path: FieldPath): unknown {
    const { exchange } = this;
    const { facts, body } = exchange;
    this.fields ??= {
      metadata: facts.metadata,
      params: body.loaded ? body.json : undefined,
      url: { pathname: exchange.originalPath },
      traceId: facts.traceId,
      apiKeyId: exchange.get(callerKey)?.id ?? '',
    };
    return readField(this.fields, path);
  }

  isOpen(leaf: PlanLeaf): boolean {
    return this.shared.breakers.isOpen(leaf, this.exchange.facts.organisationId);
  }

  latency(leaf: PlanLeaf): number | undefined {
    return this.shared.state.latency(leaf.id);
  }

  cost(leaf: PlanLeaf): number | undefined {
    const { exchange, shared } = this;
    const model = modelAt(leaf.settings.params, exchange);
    const service = shared.serviceOf(leaf, exchange, model);
    const price = shared.prices.price(estimatedUsage(exchange), service, model, exchange.startedAt);
    return price.status === 'priced' ? Number(price.cost) : undefined;
  }

  turn(branch: PlanBranch): number {
    return this.shared.state.turn(branch.id);
  }

  assigned(branch: PlanBranch, hash: string): number | undefined {
    return this.shared.state.assigned(branch.id, hash);
  }

  assign(branch: PlanBranch, hash: string, child: number, ttlMs: number): void {
    this.shared.state.assign(branch.id, hash, child, ttlMs);
  }
}

/** The model that a target would receive: from its config, else from the request, else the config's default. */
export function modelAt(params: ParamEdits | undefined, { body, dialect, path }: Exchange): string {
  const set = params?.overrides.find(([name]) => name === 'model')?.[1];
  if (typeof set === 'string') return set;
  const call = dialect.readCall?.(path);
  const json = body.loaded ? body.json : undefined;
  const named =
    call?.model ??
    (typeof json === 'object' && json !== null && !Array.isArray(json) ? json['model'] : undefined);
  if (typeof named === 'string' && named !== '')
    return params === undefined ? named : withModelPrefix(params, named);
  const fallback = params?.defaults.find(([name]) => name === 'model')?.[1];
  return typeof fallback === 'string' ? fallback : '';
}

/** One attempt of the plan, and the targets that may race it. */
export interface PlanStep {
  readonly leaf: PlanLeaf;
  /** Targets to start beside it, one after the other, each after `afterMs` without a byte; undefined without hedging. */
  readonly hedge: { readonly afterMs: number; readonly others: readonly PlanLeaf[] } | undefined;
}
