import type { BranchChoice } from '../branch-choice.ts';
import { hashFraction, hashOfFields, saltOf } from '../hash-fraction.ts';
import type { PlanBranch, StickySettings } from '../plan-node.ts';
import { pickWeighted } from './weighted.ts';

/** Salts of the children of a branch; they follow names rather than places, so that a target may move in its list. */
const salts = new WeakMap<PlanBranch, readonly number[]>();

/**
 * The child that the request's hash fields are assigned to, while that holds and it may be picked; else the one that
 * weighted rendezvous hashing gives, on which all replicas agree without talking, and which is then assigned. Random
 * for a request without any of the fields.
 */
export function pickSticky(
  choice: BranchChoice,
  branch: PlanBranch,
  sticky: StickySettings,
  taken: readonly number[],
): number {
  if (taken.length > 0)
    return choice.key === undefined ? pickWeighted(choice, branch, taken) : pickByHash(choice, branch, taken);
  const { environment } = choice;
  const key = hashOfFields(sticky.hashFields, choice.field);
  choice.key = key;
  if (key === undefined) {
    if (choice.traced) choice.reason = 'no hash field is present, random';
    return pickWeighted(choice, branch, taken);
  }
  const assigned = environment.assigned(branch, key);
  const holds = assigned !== undefined && choice.isEligible(branch, assigned, taken);
  if (choice.traced) choice.reason = holds ? 'sticky assignment' : 'assigned by hash';
  const picked = holds ? assigned : pickByHash(choice, branch, taken);
  // Each use lengthens it.
  if (picked !== -1) environment.assign(branch, key, picked, sticky.ttlMs);
  return picked;
}

function pickByHash(choice: BranchChoice, branch: PlanBranch, taken: readonly number[]): number {
  const key = choice.key ?? '';
  const saltOfChild = saltsOf(branch);
  let picked = -1;
  let least = Number.POSITIVE_INFINITY;
  for (const [index, child] of branch.children.entries()) {
    if (!choice.isEligible(branch, index, taken)) continue;
    const distance = -Math.log(hashFraction(key, saltOfChild[index])) / child.weight;
    if (picked !== -1 && distance >= least) continue;
    picked = index;
    least = distance;
  }
  return picked;
}

function saltsOf(branch: PlanBranch): readonly number[] {
  const known = salts.get(branch);
  if (known !== undefined) return known;
  const names = new Set<string>();
  const made = branch.children.map(({ name }, index) => {
    const unique = name !== undefined && !names.has(name);
    if (unique) names.add(name);
    return saltOf(`${branch.path}/${unique ? `=${name}` : index}`);
  });
  salts.set(branch, made);
  return made;
}
