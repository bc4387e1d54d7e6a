import { GatewayError } from '../../errors/gateway-error.ts';
import type { Exchange } from '../../pipeline/exchange.ts';
import type { BranchDecision, CandidateNote, PlanTrace } from '../../pipeline/decision-trace.ts';
import type { CompiledConfig, PlanBranch, PlanLeaf, PlanNode } from '../plan/plan-node.ts';
import { type PlanStep, RequestEnvironment, type SharedEnvironment } from '../plan/environment.ts';
import { usesWeights } from '../plan/compile-strategy.ts';
import { PlanWalk } from '../plan/plan-walk.ts';

/** Preview of a request's way through a config, as if every attempt failed, so that it shows the whole plan. */
interface PlanPreview {
  /** In the order of their decisions. */
  readonly branches: readonly BranchPreview[];
  readonly attempts: readonly AttemptPreview[];
  /** Refusal of the request, if it would be refused. */
  readonly refused: GatewayError | undefined;
}

/** A decision, and whether it was random: another request may then decide differently. */
interface BranchPreview extends Omit<BranchDecision, 'candidates'> {
  readonly random: boolean;
  readonly candidates: readonly CandidatePreview[];
}

/** A child, with its probability of being tried first, 0 to 1, where the choice is random. */
interface CandidatePreview extends CandidateNote {
  readonly chance?: number;
}

/** One attempt. */
interface AttemptPreview {
  readonly leaf: PlanLeaf;
  /** Targets that start beside it. */
  readonly hedge: { readonly afterMs: number; readonly others: readonly PlanLeaf[] } | undefined;
  /** Next step after a failure: the first rule that names its status applies; without one the request ends. */
  readonly rules: readonly FailureRule[];
}

/** Walks the plan of a request without executing it. `shared` provides breakers, latencies and turns. */
export function previewPlan(
  exchange: Exchange,
  config: CompiledConfig,
  shared: SharedEnvironment,
): PlanPreview {
  const chance = new CountedChance(() => shared.random());
  const trace = new PreviewTrace(config.root, chance);
  const environment = new RequestEnvironment(
    exchange,
    {
      state: shared.state,
      breakers: shared.breakers,
      prices: shared.prices,
      random: () => chance.next(),
      serviceOf: (leaf, one, model) => shared.serviceOf(leaf, one, model),
    },
    trace,
  );
  const attempts: AttemptPreview[] = [];
  let refused: GatewayError | undefined;
  try {
    const walk = new PlanWalk(config.root, environment);
    for (let step: PlanStep | undefined = walk.first(); step !== undefined;) {
      const { leaf, hedge }: PlanStep = step;
      const rules = failureRules(config.root, leaf);
      step = walk.next({ status: rules[0]?.statuses?.[0] ?? 500, final: false });
      // A race may have tried the next child already, and a branch leads to one of its targets: use the actual next step.
      const next = step?.leaf.path;
      const [first, ...others] = rules;
      const reached = first === undefined || next === undefined ? [] : [{ ...first, then: next }, ...others];
      attempts.push({ leaf, hedge, rules: reached });
    }
  } catch (error) {
    if (!GatewayError.is(error)) throw error;
    refused = error;
  }
  return { branches: trace.branches, attempts, refused };
}

class CountedChance {
  private used = false;
  private readonly random: () => number;

  constructor(random: () => number) {
    this.random = random;
  }

  next(): number {
    this.used = true;
    return this.random();
  }

  /** Whether `next` was called since the last call of this method. */
  wasUsed(): boolean {
    const { used } = this;
    this.used = false;
    return used;
  }
}

class PreviewTrace implements PlanTrace {
  readonly branches: BranchPreview[] = [];
  private readonly chance: CountedChance;
  private readonly byPath = new Map<string, PlanBranch>();

  constructor(root: PlanNode, chance: CountedChance) {
    this.chance = chance;
    this.remember(root);
  }

  branch({ candidates, ...decision }: BranchDecision): void {
    const random = this.chance.wasUsed();
    const branch = random ? this.byPath.get(decision.path) : undefined;
    const chances = branch === undefined ? undefined : chancesOf(branch);
    this.branches.push({
      ...decision,
      random,
      candidates: candidates.map((note, index) => {
        const chance = chances?.[index];
        return chance === undefined ? note : { ...note, chance };
      }),
    });
  }

  private remember(node: PlanNode): void {
    if (node.kind === 'leaf') return;
    this.byPath.set(node.path, node);
    for (const child of node.children) this.remember(child);
  }
}

/** Probability of each child to be picked first, without open breakers and measurements. */
function chancesOf({ strategy, children }: PlanBranch): readonly number[] | undefined {
  if (strategy.mode === 'canary') return [1 - strategy.percentage / 100, strategy.percentage / 100];
  if (!usesWeights(strategy.mode)) return undefined;
  const total = children.reduce((sum, { weight }) => sum + weight, 0);
  return total === 0 ? undefined : children.map(({ weight }) => weight / total);
}

/** Next step after a failed attempt. */
interface FailureRule {
  /** Undefined: every status but 2xx. */
  readonly statuses: readonly number[] | undefined;
  /** The fallback that decides. */
  readonly by: string;
  /** The target or branch that is next. */
  readonly then: string;
}

/**
 * Rules for the failures of a target, the innermost fallback first: statuses that it does not name, or has no further
 * child for, go to the next outer one. Ignores breakers.
 */
export function failureRules(root: PlanNode, leaf: PlanLeaf): readonly FailureRule[] {
  const rules: FailureRule[] = [];
  const named = new Set<number>();
  for (const { node, index } of placesOf(root, leaf).reverse()) {
    if (node.kind !== 'branch' || node.strategy.mode !== 'fallback') continue;
    const next = node.children[index + 1];
    const { onStatusCodes } = node.strategy;
    const statuses =
      onStatusCodes === undefined ? undefined : [...onStatusCodes].filter((one) => !named.has(one));
    // A status that does not continue a fallback ends it and becomes its result.
    if (next === undefined || statuses?.length === 0) continue;
    rules.push({ statuses, by: node.path, then: next.path });
    if (statuses === undefined) return rules;
    for (const status of statuses) named.add(status);
  }
  return rules;
}

/** The branches above a target, outermost first, each with the child that leads to it. */
function placesOf(node: PlanNode, leaf: PlanLeaf): { node: PlanNode; index: number }[] {
  if (node.kind === 'leaf') return [];
  for (const [index, child] of node.children.entries()) {
    if (child === leaf) return [{ node, index }];
    const below = placesOf(child, leaf);
    if (below.length > 0) return [{ node, index }, ...below];
  }
  return [];
}
