import { GatewayError } from '../../errors/gateway-error.ts';
import { BranchChoice, nothingTaken } from './branch-choice.ts';
import { describeDecision } from './describe-decision.ts';
import { isNodeOpen } from './open-node.ts';
import { pickChild } from './pick-child.ts';
import type { PlanEnvironment, PlanStep, PlanWalk, StepResult } from './plan-environment.ts';
import type { HedgeSettings, PlanBranch, PlanLeaf, PlanNode } from './plan-node.ts';
import { usesWeights } from './strategy-traits.ts';

type Race = PlanStep['hedge'];
type NodeWalk = Generator<PlanStep, StepResult, StepResult>;

/** Hands a branch that is looked into a race that nobody will run, so that it plans none of its own. */
const noRace: NonNullable<Race> = { afterMs: 0, others: [] };

/**
 * The tries of one request, one after the other: each is yielded, and its result decides the next. Pure but for what
 * `environment` does.
 *
 * Throws `invalid_request` for a request that meets no condition of a branch without a default, and for a branch all of
 * whose targets have weight 0.
 */
export function* walkPlan(root: PlanNode, environment: PlanEnvironment): PlanWalk {
  if (root.kind === 'leaf') yield { leaf: root, hedge: raceOfLeaf(root, undefined) };
  else yield* walkNode(new BranchChoice(environment), root, undefined, undefined);
}

/** `hedge` comes from a branch above that has no other target to race. */
function* walkNode(
  choice: BranchChoice,
  from: PlanNode,
  race: Race,
  hedge: HedgeSettings | undefined,
): NodeWalk {
  let node = from;
  let racing = race;
  let settings = hedge;
  // Only fallbacks come back to their children; every other branch is left behind once it has picked.
  while (node.kind === 'branch') {
    settings = node.hedge ?? settings;
    const { mode } = node.strategy;
    if (mode === 'fallback') return yield* walkFallback(choice, node, racing, settings);
    choice.begin(node, usesWeights(mode));
    const first = pickChild(choice, node, nothingTaken);
    const child: PlanNode | undefined = node.children[first];
    if (child === undefined) {
      report(choice, node, nothingTaken);
      throw nothingToTry(node);
    }
    if (racing === undefined && settings !== undefined && mode !== 'single' && mode !== 'conditional') {
      const order = pickMore(choice, node, first, settings.max);
      report(choice, node, order);
      racing = raceAmong(choice, node, order, settings);
      settings = undefined;
    } else if (choice.traced) report(choice, node, [first]);
    node = child;
  }
  return yield { leaf: node, hedge: racing ?? raceOfLeaf(node, settings) };
}

function* walkFallback(
  choice: BranchChoice,
  branch: PlanBranch,
  race: Race,
  hedge: HedgeSettings | undefined,
): NodeWalk {
  const { environment } = choice;
  choice.begin(branch, false);
  const { bypass } = choice;
  const order = choice.traced || hedge !== undefined ? closedChildren(choice, branch) : nothingTaken;
  if (choice.traced) report(choice, branch, order);
  const raced = race === undefined && hedge !== undefined ? order.slice(0, hedge.max + 1) : nothingTaken;
  let racing = race ?? (hedge === undefined ? undefined : raceAmong(choice, branch, raced, hedge));
  let result: StepResult | undefined;
  for (const [index, child] of branch.children.entries()) {
    // Those that raced the first try had theirs.
    if (result !== undefined && raced.includes(index)) continue;
    if (!bypass && isNodeOpen(environment, child)) continue;
    result =
      child.kind === 'leaf'
        ? yield { leaf: child, hedge: racing ?? raceOfLeaf(child, undefined) }
        : yield* walkNode(choice, child, racing, undefined);
    racing = undefined;
    if (!goesOn(branch, result)) return result;
  }
  if (result === undefined) throw nothingToTry(branch);
  return result;
}

function goesOn(branch: PlanBranch, { status, final }: StepResult): boolean {
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

/** The children behind the first one as racers; undefined when it stands alone. */
function raceAmong(
  choice: BranchChoice,
  branch: PlanBranch,
  order: readonly number[],
  settings: HedgeSettings,
): Race {
  const others: PlanLeaf[] = [];
  for (const index of order.slice(1)) {
    const child = branch.children[index];
    const leaf = child === undefined ? undefined : firstTry(choice.environment, child);
    if (leaf !== undefined) others.push(leaf);
  }
  return others.length === 0 ? undefined : { afterMs: settings.afterMs, others };
}

/** The target that a node would try first; undefined for one that has none for this request. */
function firstTry(environment: PlanEnvironment, node: PlanNode): PlanLeaf | undefined {
  if (node.kind === 'leaf') return node;
  try {
    const step = walkNode(new BranchChoice(environment), node, noRace, undefined).next();
    return step.done === true ? undefined : step.value.leaf;
  } catch (error) {
    // It cannot race, which is no reason to refuse what the first one may answer.
    if (GatewayError.is(error) && error.code === 'invalid_request') return undefined;
    throw error;
  }
}

function report(choice: BranchChoice, branch: PlanBranch, order: readonly number[]): void {
  choice.environment.trace?.branch(describeDecision(choice, branch, order));
}

function nothingToTry(branch: PlanBranch): GatewayError {
  const sentence =
    branch.strategy.mode === 'conditional'
      ? 'no condition matched this request and no default is set; set strategy.default to the name of a target'
      : 'every target has weight 0; give one of them a weight above 0';
  return new GatewayError('invalid_request', `${branch.path}: ${sentence}.`, { param: 'config' });
}
