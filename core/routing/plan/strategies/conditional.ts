import type { BranchChoice } from '../branch-choice.ts';
import type { Strategy } from '../plan-node.ts';

/** The child of the first condition that holds, else the default one; -1 when there is none. */
export function pickByCondition(
  choice: BranchChoice,
  strategy: Extract<Strategy, { readonly mode: 'conditional' }>,
): number {
  const { conditions, otherwise } = strategy;
  for (let index = 0; index < conditions.length; index++) {
    const { test, then } = conditions[index] as (typeof conditions)[number];
    if (!test(choice.field)) continue;
    if (choice.traced) choice.reason = `condition ${index + 1} matched`;
    return then;
  }
  if (choice.traced) choice.reason = otherwise === undefined ? 'no condition matched' : 'default';
  return otherwise ?? -1;
}
