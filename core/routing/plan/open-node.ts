import type { PlanEnvironment } from './plan-environment.ts';
import type { PlanLeaf, PlanNode } from './plan-node.ts';

/** Whether the breaker of a target is open; a branch is open when all of its targets are. */
export function isNodeOpen(environment: PlanEnvironment, node: PlanNode): boolean {
  if (node.kind === 'leaf') return node.breaker !== undefined && environment.isOpen(node);
  for (const child of node.children) if (!isNodeOpen(environment, child)) return false;
  return true;
}

/** The target that stands for a node where targets are compared: its first one with a closed breaker, else its first one. */
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
