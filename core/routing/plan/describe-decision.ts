import type { BranchChoice } from './branch-choice.ts';
import { isNodeOpen } from './open-node.ts';
import type { BranchDecision, CandidateNote } from '../../pipeline/plan-trace.ts';
import type { PlanBranch } from './plan-node.ts';
import { costOfChild } from './strategies/least-cost.ts';
import { latencyOfChild } from './strategies/least-latency.ts';
import { usesBreakers, usesWeights } from './strategy-traits.ts';

/** What a branch decided, for whoever traces: `order` are its children in the order of trying. */
export function describeDecision(
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

function scoreOf(choice: BranchChoice, branch: PlanBranch, index: number): number | undefined {
  const { strategy, children } = branch;
  switch (strategy.mode) {
    case 'loadbalance':
    case 'round-robin':
      return children[index]?.weight;
    case 'least-latency':
      return latencyOfChild(choice, branch, index);
    case 'least-cost':
      return costOfChild(choice, branch, index);
    case 'canary':
      return index === 1 ? strategy.percentage : 100 - strategy.percentage;
    default:
      return undefined;
  }
}
