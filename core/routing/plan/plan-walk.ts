import { GatewayError } from '../../errors/gateway-error.ts';
import { BranchChoice, nothingTaken, pickChild, scoreOf } from './strategies.ts';
import {
  type HedgeSettings,
  isNodeOpen,
  type PlanBranch,
  type PlanEnvironment,
  type PlanLeaf,
  type PlanNode,
  type StrategyMode,
} from './plan-node.ts';
import { describeFieldPath, type FieldPath } from './field-path.ts';
import type { PlanStep } from './environment.ts';
import { usesWeights } from './compile-strategy.ts';
import type { BranchDecision, CandidateNote } from '../../pipeline/decision-trace.ts';

/** Result of a step; that of a race is the winner's, else that of the last failure. */
interface StepResult {
  /** Status that a client would see: the provider's, or that of the gateway's error. */
  readonly status: number;
  /** True when another target cannot do better: the client has disconnected, or its request is invalid. */
  readonly final: boolean;
}

type Race = PlanStep['hedge'];

/** The field of conditions that tells models apart. */
const modelField = 'params.model';

/** An unused race for a branch that is only inspected, so that it plans none of its own. */
const noRace: NonNullable<Race> = { afterMs: 0, others: [] };

/** A fallback on the way to the present attempt, with its position. */
interface FallbackPlace {
  readonly branch: PlanBranch;
  /** All its children have open breakers, so breakers are ignored. */
  readonly bypass: boolean;
  /** Indices of the children that race its first attempt. */
  readonly raced: readonly number[];
  /** Index of the next child. */
  next: number;
}

/**
 * The attempts of one request, one after the other: `first`, and after the result of each the `next`. Pure except for
 * `environment`.
 *
 * Throws `invalid_request` for a request that matches no condition of a branch without a default, and for a branch whose
 * targets all have weight 0.
 */
export class PlanWalk {
  private readonly root: PlanNode;
  private readonly choice: BranchChoice;
  /** Fallbacks around the present attempt, the innermost last. The walk returns to no other branch. */
  private readonly fallbacks: FallbackPlace[] = [];

  constructor(root: PlanNode, environment: PlanEnvironment) {
    this.root = root;
    this.choice = new BranchChoice(environment);
  }

  /** The first attempt. Call it once. */
  first(): PlanStep {
    return this.descend(this.root, undefined);
  }

  /** The attempt after one with this result; undefined after the last one. */
  next(result: StepResult): PlanStep | undefined {
    const { fallbacks } = this;
    for (let place = fallbacks.at(-1); place !== undefined; place = fallbacks.at(-1)) {
      const child = shouldFallBack(place.branch, result) ? this.childOf(place, true) : undefined;
      if (child !== undefined) return this.descend(child, undefined);
      fallbacks.pop();
    }
    return undefined;
  }

  /** The first target to try, without hedging; undefined when this request has none there. */
  static firstTarget(root: PlanNode, environment: PlanEnvironment): PlanLeaf | undefined {
    try {
      return new PlanWalk(root, environment).descend(root, noRace).leaf;
    } catch (error) {
      // This branch cannot race, but the first target may still answer.
      if (GatewayError.is(error) && error.code === 'invalid_request') return undefined;
      throw error;
    }
  }

  /** Descends from a node to a target. `race` was planned by a branch above, whose first target this is. */
  private descend(from: PlanNode, race: Race): PlanStep {
    const { choice } = this;
    let node = from;
    let racing = race;
    // Hedging of a branch above that has no other target to race.
    let settings: HedgeSettings | undefined;
    while (node.kind === 'branch') {
      settings = node.hedge ?? settings;
      const { mode } = node.strategy;
      let child: PlanNode | undefined;
      if (mode === 'fallback') {
        const place = this.enter(node, racing === undefined ? settings : undefined);
        if (racing === undefined && settings !== undefined)
          racing = raceAmong(choice, node, place.raced, settings);
        settings = undefined;
        child = this.childOf(place, false);
      } else {
        choice.begin(node, usesWeights(mode));
        const first = pickChild(choice, node, nothingTaken);
        child = node.children[first];
        if (child === undefined) report(choice, node, nothingTaken);
        else if (racing === undefined && settings !== undefined && !namesTarget(mode)) {
          const order = pickMore(choice, node, first, settings.max);
          report(choice, node, order);
          racing = raceAmong(choice, node, order, settings);
          settings = undefined;
        } else if (choice.traced) report(choice, node, [first]);
      }
      if (child === undefined) throw noTargetError(node, choice.environment);
      node = child;
    }
    return { leaf: node, hedge: racing ?? raceOfLeaf(node, settings) };
  }

  /** Enters a fallback. `hedge` is set when further children race its first attempt. */
  private enter(branch: PlanBranch, hedge: HedgeSettings | undefined): FallbackPlace {
    const { choice, fallbacks } = this;
    choice.begin(branch, false);
    const { bypass } = choice;
    const order = choice.traced || hedge !== undefined ? closedChildren(choice, branch) : nothingTaken;
    if (choice.traced) report(choice, branch, order);
    const raced = hedge === undefined ? nothingTaken : order.slice(0, hedge.max + 1);
    const place: FallbackPlace = { branch, bypass, raced, next: 0 };
    fallbacks.push(place);
    return place;
  }

  /** The next child to try. With a result, children that raced the first one have had their attempt. */
  private childOf(place: FallbackPlace, hasResult: boolean): PlanNode | undefined {
    const { branch, bypass, raced } = place;
    const { children } = branch;
    while (place.next < children.length) {
      const index = place.next++;
      const child = children[index];
      if (child === undefined || (hasResult && raced.includes(index))) continue;
      if (bypass || !isNodeOpen(this.choice.environment, child)) return child;
    }
    return undefined;
  }
}

function shouldFallBack(branch: PlanBranch, { status, final }: StepResult): boolean {
  if (final || branch.strategy.mode !== 'fallback') return false;
  const codes = branch.strategy.onStatusCodes;
  return codes === undefined ? status < 200 || status > 299 : codes.has(status);
}

function closedChildren(choice: BranchChoice, branch: PlanBranch): readonly number[] {
  const order: number[] = [];
  for (const [index, child] of branch.children.entries())
    if (choice.bypass || !isNodeOpen(choice.environment, child)) order.push(index);
  return order;
}

/** The first pick and up to `max` further ones. */
function pickMore(choice: BranchChoice, branch: PlanBranch, first: number, max: number): readonly number[] {
  const order = [first];
  while (order.length <= max) {
    const next = pickChild(choice, branch, order);
    if (next === -1) break;
    order.push(next);
  }
  return order;
}

function raceOfLeaf(leaf: PlanLeaf, inherited: HedgeSettings | undefined): Race {
  const settings = leaf.hedge ?? inherited;
  if (settings === undefined) return undefined;
  return { afterMs: settings.afterMs, others: Array.from({ length: settings.max }, () => leaf) };
}

/** The children after the first one as a race; undefined when there are none. */
function raceAmong(
  choice: BranchChoice,
  branch: PlanBranch,
  order: readonly number[],
  settings: HedgeSettings,
): Race {
  const others: PlanLeaf[] = [];
  for (const index of order.slice(1)) {
    const child = branch.children[index];
    const leaf = child === undefined ? undefined : PlanWalk.firstTarget(child, choice.environment);
    if (leaf !== undefined) others.push(leaf);
  }
  return others.length === 0 ? undefined : { afterMs: settings.afterMs, others };
}

function report(choice: BranchChoice, branch: PlanBranch, order: readonly number[]): void {
  choice.environment.trace?.branch(describeDecision(choice, branch, order));
}

/** The refusal by a branch that picks no child. The request's model is at fault where conditions ask for nothing else. */
function noTargetError(branch: PlanBranch, environment: PlanEnvironment): GatewayError {
  const { strategy, path } = branch;
  if (strategy.mode !== 'conditional') {
    const sentence = 'every target has weight 0; give one of them a weight above 0';
    return new GatewayError('invalid_request', `${path}: ${sentence}.`, { param: 'config' });
  }
  const read = new Set<string>();
  let model: unknown;
  const field = (asked: FieldPath): unknown => {
    const value = environment.field(asked);
    const name = describeFieldPath(asked);
    read.add(name);
    if (name === modelField) model = value;
    return value;
  };
  for (const { test } of strategy.conditions) test(field);
  const isForModel = read.size === 1 && typeof model === 'string';
  const request = isForModel ? `the model ${JSON.stringify(model)}` : 'this request';
  return new GatewayError(
    'invalid_request',
    `${path}: no condition matched ${request} and no default is set; set strategy.default to the name of a target.`,
    { param: isForModel ? 'model' : 'config' },
  );
}

/** Reports the decision of a branch to the trace; `order` are its children in the order of attempts. */
function describeDecision(
  choice: BranchChoice,
  branch: PlanBranch,
  order: readonly number[],
): BranchDecision {
  const candidates = branch.children.map((_, index) => describeChild(choice, branch, index, order));
  const { path, strategy } = branch;
  const reason = reasonOf(choice, branch);
  return reason === undefined
    ? { path, mode: strategy.mode, candidates }
    : { path, mode: strategy.mode, candidates, reason };
}

function reasonOf(choice: BranchChoice, branch: PlanBranch): string | undefined {
  if (!choice.bypass || !usesBreakers(branch.strategy.mode)) return choice.reason;
  const open = 'every breaker is open and therefore ignored';
  return choice.reason === undefined ? open : `${choice.reason}; ${open}`;
}

function describeChild(
  choice: BranchChoice,
  branch: PlanBranch,
  index: number,
  order: readonly number[],
): CandidateNote {
  const child = branch.children[index];
  const note: { -readonly [Member in keyof CandidateNote]: CandidateNote[Member] } = {
    path: child?.path ?? '',
  };
  if (child?.name !== undefined) note.name = child.name;
  const score = scoreOf(choice, branch, index);
  if (score !== undefined) note.score = score;
  const place = order.indexOf(index);
  if (place !== -1) note.order = place + 1;
  else if (child !== undefined) {
    const { mode } = branch.strategy;
    if (usesWeights(mode) && child.weight <= 0) note.skipped = 'weight 0';
    else if (usesBreakers(mode) && !choice.bypass && isNodeOpen(choice.environment, child))
      note.skipped = 'breaker open';
  }
  return note;
}

/** Whether targets with an open breaker are skipped; a single target is tried even then. */
function usesBreakers(mode: StrategyMode): boolean {
  return !namesTarget(mode);
}

/** Whether the strategy gives each request a single target, without alternatives. */
function namesTarget(mode: StrategyMode): boolean {
  return mode === 'single' || mode === 'conditional';
}
