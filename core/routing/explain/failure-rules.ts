import type { PlanLeaf, PlanNode } from '../plan/plan-node.ts';

/** What a failed try leads to. */
export interface FailureRule {
  /** Undefined: everything but 2xx. */
  readonly statuses: readonly number[] | undefined;
  /** The fallback that decides. */
  readonly by: string;
  /** The target or branch that is next. */
  readonly then: string;
}

/**
 * Where failures of a target lead, the innermost fallback first: what that one does not name, or cannot help with any
 * more, is the next one's. Breakers aside.
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
    // A status that it does not go on with ends it, and is then its own result.
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
