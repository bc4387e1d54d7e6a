import type { PlanTrace } from '../../pipeline/plan-trace.ts';
import type { FieldPath } from './field-path.ts';
import type { PlanBranch, PlanLeaf } from './plan-node.ts';

/** Everything that a strategy may know; the walk itself is pure. One object per request. */
export interface PlanEnvironment {
  /** A number of at least 0 and below 1. */
  random(): number;
  /** Value of a field of the request: `metadata.…`, `params.…`, `url.pathname`, `trace_id`, `api_key`. Undefined when it has none. */
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

/** One try of the plan, and who may race it. */
export interface PlanStep {
  readonly leaf: PlanLeaf;
  /** Who is started beside it, one after the other, each after `afterMs` without a byte; undefined without hedging. */
  readonly hedge: { readonly afterMs: number; readonly others: readonly PlanLeaf[] } | undefined;
}

/** How a step came out; a step of several is told by the one that won, else by the last that failed. */
export interface StepResult {
  /** What a client would see: the provider's status, or the status of the gateway's error. */
  readonly status: number;
  /** No other target would do better: the client has left, or its request is wrong. */
  readonly final: boolean;
}
