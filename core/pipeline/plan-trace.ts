/** Hears how a plan came about. */
export interface PlanTrace {
  branch(decision: BranchDecision): void;
}

/** What one branch decided. */
export interface BranchDecision {
  readonly path: string;
  /** Name of the strategy: `fallback`. */
  readonly mode: string;
  /** In file order. */
  readonly candidates: readonly CandidateNote[];
  /** Why it came out so, where the candidates do not tell: `condition 2 matched`. */
  readonly reason?: string;
}

/** How a branch looked at one of its children. */
export interface CandidateNote {
  readonly path: string;
  readonly name?: string;
  /** Place in the order of trying, from 1 on; absent for one that will not be tried. */
  readonly order?: number;
  /** What it was ranked by: weight, milliseconds or US dollars. */
  readonly score?: number;
  /** Why it was left out: `breaker open`, `weight 0`. */
  readonly skipped?: string;
}
