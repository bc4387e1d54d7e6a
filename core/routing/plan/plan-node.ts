import type { BreakerRules } from '../../base/breaker.ts';
import type { PlanTrace } from '../../pipeline/decision-trace.ts';
import type { CacheSettings } from '../../ports/cache.ts';
import type { GuardrailSpecs } from '../../ports/guardrails.ts';
import type { ParamEdits } from '../params/apply-param-edits.ts';
import type { FieldPath } from './field-path.ts';

/**
 * A compiled config: targets, strategies and attempt settings. Immutable; shared by all requests that use it.
 */
export interface CompiledConfig {
  /**
   * The slug, the id of a saved config, or `inline:` and a digest of the text: key of its state (breakers, turns,
   * latencies) across requests and reloads.
   */
  readonly id: string;
  /** Undefined for an inline config. */
  readonly slug: string | undefined;
  /** Version of a saved config. */
  readonly version?: number | undefined;
  /** Saved by users of an organisation: like an inline config, it is not trusted as the operator's. */
  readonly isSaved: boolean;
  readonly root: PlanNode;
  /** All leaves, in file order. */
  readonly leaves: readonly PlanLeaf[];
  /**
   * A condition, a hash or an estimate reads the request's body, so the body must be in memory before the plan is made.
   */
  readonly readsBody: boolean;
  /** Every target names its provider, so the request needs to name none. */
  readonly isComplete: boolean;
  /** A strategy ranks its targets by latency. Latency is measured only when this is true. */
  readonly ranksByLatency: boolean;
}

export type PlanNode = PlanLeaf | PlanBranch;

/** One target with its inherited settings. */
export interface PlanLeaf {
  readonly kind: 'leaf';
  /** `${CompiledConfig.id}#${path}`. */
  readonly id: string;
  /** Place in the config: `config.targets[1].targets[0]`; `config` for a config without targets. */
  readonly path: string;
  readonly name: string | undefined;
  /** Share of its branch's requests; 0 excludes it from weighted choices. Default 1. */
  readonly weight: number;
  /** As addressed (`openai`, `@slug`); undefined: the request names it. */
  readonly provider: LeafProvider | undefined;
  /**
   * The operator's config that provides provider, credential and host through a reference, even from an inline config:
   * its credential is a held one. Undefined for saved ones.
   */
  readonly definedIn?: string | undefined;
  /** Part of a saved config, to which an operator's config may refer: it is not trusted as the operator's. */
  readonly isSaved?: boolean;
  readonly settings: AttemptSettings;
  readonly breaker: BreakerSettings | undefined;
  readonly hedge: HedgeSettings | undefined;
}

/** Provider of a target. */
export interface LeafProvider {
  readonly name: string;
  /** `virtual-key`: addressed as a virtual key, so always a provider of the configuration. */
  readonly kind: 'provider' | 'virtual-key';
}

/** A strategy over further nodes. */
export interface PlanBranch {
  readonly kind: 'branch';
  readonly id: string;
  readonly path: string;
  readonly name: string | undefined;
  readonly weight: number;
  readonly strategy: Strategy;
  readonly children: readonly PlanNode[];
  readonly hedge: HedgeSettings | undefined;
}

export type Strategy =
  | { readonly mode: 'single' }
  /** Without codes every answer but 2xx continues with the next target. */
  | { readonly mode: 'fallback'; readonly onStatusCodes: ReadonlySet<number> | undefined }
  | { readonly mode: 'loadbalance'; readonly sticky: StickySettings | undefined }
  | {
      readonly mode: 'conditional';
      readonly conditions: readonly { readonly test: Condition; readonly then: number }[];
      /** Index of the child for requests that match no condition; undefined refuses them. */
      readonly otherwise: number | undefined;
    }
  | { readonly mode: 'least-latency' }
  | { readonly mode: 'least-cost' }
  | { readonly mode: 'round-robin' }
  /** The second child gets `percentage` of the requests, the first one the others. */
  | { readonly mode: 'canary'; readonly percentage: number; readonly hashFields: readonly FieldPath[] };

export type StrategyMode = Strategy['mode'];

/** Requests with equal values of these fields go to the same target. */
export interface StickySettings {
  readonly hashFields: readonly FieldPath[];
  /** Lifetime of an assignment after its last use. */
  readonly ttlMs: number;
}

/** Hedging: starts another attempt when the first has received no byte after `afterMs`; the first good answer wins. */
export interface HedgeSettings {
  readonly afterMs: number;
  /** Attempts beside the first one, 1 to 3. */
  readonly max: number;
}

/** Settings of a circuit breaker. */
export interface BreakerSettings extends BreakerRules {
  /** Statuses that count as failures; undefined: 500 and above, no answer at all, and no answer in time (408). */
  readonly failureStatusCodes: ReadonlySet<number> | undefined;
}

/** Settings for the attempts at one target. Undefined: the options of the `provider` plugin apply. */
export interface AttemptSettings {
  readonly params: ParamEdits | undefined;
  readonly retry: RetrySettings | undefined;
  /** Timeout of the whole attempt, streams to their last byte. */
  readonly requestTimeoutMs: number | undefined;
  /** Timeout from the send until the first token (first byte where the answer has none). */
  readonly firstTokenTimeoutMs: number | undefined;
  /** Timeout between two pieces of an answer. */
  readonly idleTimeoutMs: number | undefined;
  readonly cache: CacheSettings | undefined;
  /** Guardrails for requests and answers; undefined for none. */
  readonly guardrails: GuardrailSpecs | undefined;
  readonly customHost: string | undefined;
  /** Lower-case names of the client's headers that are always forwarded to the provider. */
  readonly forwardHeaders: readonly string[];
  readonly strictOpenAiCompliance: boolean | undefined;
  readonly onDrop: 'report' | 'refuse' | undefined;
  /** The provider's credential from the config. A secret. */
  readonly apiKey: string | undefined;
  /** Fields of the provider (`azure_resource_name`, `aws_region` …), secrets among them. */
  readonly fields: Readonly<Record<string, string>>;
}

/** Settings for retries at the same target. */
export interface RetrySettings {
  /** Attempts after the first one, 0 to 5. */
  readonly attempts: number;
  readonly onStatusCodes: ReadonlySet<number>;
  /** Takes the wait from the header of an answer with 429 or 503. */
  readonly useRetryAfter: boolean;
}

/** Whether the breaker of a target is open; a branch is open when all of its targets are. */
export function isNodeOpen(environment: PlanEnvironment, node: PlanNode): boolean {
  if (node.kind === 'leaf') return node.breaker !== undefined && environment.isOpen(node);
  for (const child of node.children) if (!isNodeOpen(environment, child)) return false;
  return true;
}

/** A compiled query: whether the fields of a request match it. Pure, never throws. */
export type Condition = (field: (path: FieldPath) => unknown) => boolean;

/** All inputs of a strategy; the walk itself is pure. One object per request. */
export interface PlanEnvironment {
  /** A number of at least 0 and below 1. */
  random(): number;
  /**
   * Value of a field of the request: `metadata.…`, `params.…`, `url.pathname`, `trace_id`, `api_key`. Undefined for none.
   */
  field(path: FieldPath): unknown;
  /** Whether the breaker of this target is open: it is skipped while others are available. */
  isOpen(leaf: PlanLeaf): boolean;
  /** Moving average of the time to the first token, in milliseconds; undefined before the first measurement. */
  latency(leaf: PlanLeaf): number | undefined;
  /** Estimated price of this request at the target, in US dollars; undefined when no price is known. */
  cost(leaf: PlanLeaf): number | undefined;
  /** Counts the requests of a branch from 0. */
  turn(branch: PlanBranch): number;
  /** The child to which a hash is assigned; undefined after its expiry. */
  assigned(branch: PlanBranch, hash: string): number | undefined;
  assign(branch: PlanBranch, hash: string, child: number, ttlMs: number): void;
  /** Set when the request is traced. */
  readonly trace: PlanTrace | undefined;
}
