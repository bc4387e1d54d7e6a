import type { FieldPath } from './field-path.ts';
import { isNodeOpen } from './open-node.ts';
import type { PlanEnvironment } from './plan-environment.ts';
import type { PlanBranch } from './plan-node.ts';

/** Nothing was picked yet. */
export const nothingTaken: readonly number[] = [];

/** What a strategy notes while it picks among the children of one branch. One object per walk, begun anew at each branch. */
export class BranchChoice {
  readonly environment: PlanEnvironment;
  /** Every child that could be picked has an open breaker, so breakers are not looked at. */
  bypass = false;
  /** Why it came out so; kept only while somebody traces. */
  reason: string | undefined;
  /** Where round-robin stands in its schedule. */
  position = 0;
  /** What the request's hash fields come to. */
  key: string | undefined;
  #field: ((path: FieldPath) => unknown) | undefined;

  constructor(environment: PlanEnvironment) {
    this.environment = environment;
  }

  /** Fields of the request, for conditions and hashes. */
  get field(): (path: FieldPath) => unknown {
    return (this.#field ??= (path) => this.environment.field(path));
  }

  /** Whether anybody hears the reasons: texts are made for them alone. */
  get traced(): boolean {
    return this.environment.trace !== undefined;
  }

  /** Before the first pick among the children of `branch`. */
  begin(branch: PlanBranch, weighted: boolean): void {
    this.reason = undefined;
    this.bypass = true;
    for (const child of branch.children) {
      if ((weighted && child.weight <= 0) || isNodeOpen(this.environment, child)) continue;
      this.bypass = false;
      return;
    }
  }

  /** Whether the child may be picked by weight: it has some, its breaker is closed, and it was not picked before. */
  isEligible(branch: PlanBranch, index: number, taken: readonly number[]): boolean {
    const child = branch.children[index];
    if (child === undefined || child.weight <= 0 || taken.includes(index)) return false;
    return this.bypass || !isNodeOpen(this.environment, child);
  }
}
