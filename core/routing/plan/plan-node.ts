import type { PlanTrace } from '../../pipeline/decision-trace.ts';
import type { CacheSettings } from '../../ports/cache.ts';
import type { GuardrailSpecs } from '../../ports/guardrails.ts';
import type { ParamEdits } from '../params/param-edits.ts';
import type { FieldPath } from './field-path.ts';

/**
 * A compiled config: where requests go, and how each attempt is made. Immutable; shared by all requests that use it.
 */
export interface CompiledConfig {
  /**
   * The slug, the id of a saved one, or `inline:` and a digest of the text: names its state (breakers, turns,
   * latencies) across requests and reloads.
   */
  readonly id: string;
  /** Undefined for one that a request brought along. */
  readonly slug: string | undefined;
  /** Of a saved one. */
  readonly version?: number | undefined;
  /** People of an organisation saved it: like one that a request brings along, it is not the operator's word. */
  readonly isSaved: boolean;
  readonly root: PlanNode;
  /** All of them, in file order. */
  readonly leaves: readonly PlanLeaf[];
  /**
   * A condition, a hash or an estimate reads the request's body, which therefore has to be in memory before the plan is
   * made.
   */
  readonly readsBody: boolean;
  /** Every target names its provider: nothing is left to the request. */
  readonly isComplete: boolean;
  /** A strategy ranks its targets by their latency, which is measured only then. */
  readonly ranksByLatency: boolean;
}

export type PlanNode = PlanLeaf | PlanBranch;

/** One target, everything that it inherits filled in. */
export interface PlanLeaf {
  readonly kind: 'leaf';
  /** `${CompiledConfig.id}#${path}`. */
  readonly id: string;
  /** Where it stands: `config.targets[1].targets[0]`; `config` for a config without targets. */
  readonly path: string;
  readonly name: string | undefined;
  /** Share of its branch's requests; 0 takes it out of weighted choices. Default 1. */
  readonly weight: number;
  /** As addressed (`openai`, `@slug`); undefined leaves it to the request. */
  readonly provider: LeafProvider | undefined;
  /**
   * The config that provider, credential and host come from, when a reference to one of the operator's led there, also
   * where a request brought along what refers to it: its credential is a held one. Undefined for saved ones.
   */
  readonly definedIn?: string | undefined;
  /** It stands in a saved config, which one of the operator's may refer to: it is not the operator's word. */
  readonly isSaved?: boolean;
  readonly settings: AttemptSettings;
  readonly breaker: BreakerSettings | undefined;
  readonly hedge: HedgeSettings | undefined;
}

/** Which provider a target names. */
export interface LeafProvider {
  readonly name: string;
  /** `virtual-key`: named as one, and so always a provider of the configuration. */
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
  /** Without codes every answer but 2xx goes on to the next target. */
  | { readonly mode: 'fallback'; readonly onStatusCodes: ReadonlySet<number> | undefined }
  | { readonly mode: 'loadbalance'; readonly sticky: StickySettings | undefined }
  | {
      readonly mode: 'conditional';
      readonly conditions: readonly { readonly test: Condition; readonly then: number }[];
      /** Index of the child for requests that meet no condition; undefined refuses them. */
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
  /** How long an assignment outlives its last use. */
  readonly ttlMs: number;
}

/** Starts another attempt when the first has brought no byte after a while; the first good answer wins. */
export interface HedgeSettings {
  readonly afterMs: number;
  /** Attempts beside the first one, 1 to 3. */
  readonly max: number;
}

/** When a target is left alone for a while. */
export interface BreakerSettings {
  /** Failures within a minute that open it. */
  readonly failureThreshold: number;
  /** Share of failures, in percent, that opens it as well, once `minimumRequests` were made within the minute. */
  readonly failureThresholdPercentage: number | undefined;
  readonly minimumRequests: number;
  /** How long it stays open before one request may try. */
  readonly cooldownMs: number;
  /** What counts as a failure; undefined: every status of 500 and above, no answer at all, and none in time (408). */
  readonly failureStatusCodes: ReadonlySet<number> | undefined;
}

/** How the attempts at one target are made. Undefined leaves a matter to the options of the `provider` plugin. */
export interface AttemptSettings {
  readonly params: ParamEdits | undefined;
  readonly retry: RetrySettings | undefined;
  /** The whole attempt, streams to their last byte. */
  readonly requestTimeoutMs: number | undefined;
  /** From sending until the first token (first byte where the answer has none). */
  readonly firstTokenTimeoutMs: number | undefined;
  /** Between two pieces of an answer. */
  readonly idleTimeoutMs: number | undefined;
  readonly cache: CacheSettings | undefined;
  /** What judges requests and answers; undefined for nothing. */
  readonly guardrails: GuardrailSpecs | undefined;
  readonly customHost: string | undefined;
  /** Lower-case names of the client's headers that reach the provider in any case. */
  readonly forwardHeaders: readonly string[];
  readonly strictOpenAiCompliance: boolean | undefined;
  readonly onDrop: 'report' | 'refuse' | undefined;
  /** The provider's credential, as the config brings it along. A secret. */
  readonly apiKey: string | undefined;
  /** Fields of the provider (`azure_resource_name`, `aws_region` …), secrets among them. */
  readonly fields: Readonly<Record<string, string>>;
}

/** Trying the same target again. */
export interface RetrySettings {
  /** Attempts after the first one, 0 to 5. */
  readonly attempts: number;
  readonly onStatusCodes: ReadonlySet<number>;
  /** Waits as long as an answer with 429 or 503 asks. */
  readonly useRetryAfter: boolean;
}

/** Whether the breaker of a target is open; a branch is open when all of its targets are. */
export function isNodeOpen(environment: PlanEnvironment, node: PlanNode): boolean {
  if (node.kind === 'leaf') return node.breaker !== undefined && environment.isOpen(node);
  for (const child of node.children) if (!isNodeOpen(environment, child)) return false;
  return true;
}

/**
 * The target that stands for a node where targets are compared: its first one with a closed breaker, else its first
 * one.
 */
export function leadingLeaf(environment: PlanEnvironment, node: PlanNode): PlanLeaf | undefined {
  return firstClosed(environment, node) ?? firstLeaf(node);
}

function firstClosed(environment: PlanEnvironment, node: PlanNode): PlanLeaf | undefined {
  if (node.kind === 'leaf') return isNodeOpen(environment, node) ? undefined : node;
  for (const child of node.children) {
    const found = firstClosed(environment, child);
    if (found !== undefined) return found;
  }
  return undefined;
}

function firstLeaf(node: PlanNode): PlanLeaf | undefined {
  if (node.kind === 'leaf') return node;
  for (const child of node.children) {
    const found = firstLeaf(child);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** A compiled query: whether the fields of a request meet it. Pure, never throws. */
export type Condition = (field: (path: FieldPath) => unknown) => boolean;

/** Everything that a strategy may know; the walk itself is pure. One object per request. */
export interface PlanEnvironment {
  /** A number of at least 0 and below 1. */
  random(): number;
  /**
   * Value of a field of the request: `metadata.…`, `params.…`, `url.pathname`, `trace_id`, `api_key`. Undefined when it
   * has none.
   */
  field(path: FieldPath): unknown;
  /** The breaker of this target is open: it is left out while others are not. */
  isOpen(leaf: PlanLeaf): boolean;
  /** Moving average of the time to the first token, in milliseconds; undefined before the first measurement. */
  latency(leaf: PlanLeaf): number | undefined;
  /** Estimated price of this request there, in US dollars; undefined when no price is known. */
  cost(leaf: PlanLeaf): number | undefined;
  /** Counts the requests of a branch from 0 on. */
  turn(branch: PlanBranch): number;
  /** The child to which a hash was assigned, while that holds. */
  assigned(branch: PlanBranch, hash: string): number | undefined;
  assign(branch: PlanBranch, hash: string, child: number, ttlMs: number): void;
  /** Set when somebody wants to know why. */
  readonly trace: PlanTrace | undefined;
}
