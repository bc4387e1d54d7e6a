import { describeFieldPath, type FieldPath } from './field-path.ts';
import { hashFraction } from './strategies.ts';
import type { BranchDecision } from '../../pipeline/decision-trace.ts';
import type { PlanStep } from './environment.ts';
import type {
  AttemptSettings,
  BreakerSettings,
  HedgeSettings,
  PlanBranch,
  PlanEnvironment,
  PlanLeaf,
  PlanNode,
  Strategy,
} from './plan-node.ts';
import { PlanWalk } from './plan-walk.ts';

const settings: AttemptSettings = {
  params: undefined,
  retry: undefined,
  requestTimeoutMs: undefined,
  firstTokenTimeoutMs: undefined,
  idleTimeoutMs: undefined,
  cache: undefined,
  guardrails: undefined,
  customHost: undefined,
  forwardHeaders: [],
  strictOpenAiCompliance: undefined,
  onDrop: undefined,
  apiKey: undefined,
  fields: {},
};
const breaker: BreakerSettings = {
  failureThreshold: 1,
  failureThresholdPercentage: undefined,
  minimumRequests: 1,
  cooldownMs: 30_000,
  failureStatusCodes: undefined,
};

interface NodeOptions {
  readonly name?: string;
  readonly weight?: number;
  readonly hedge?: HedgeSettings;
}

/** A target whose id is its path; it has a breaker. */
export function leaf(path: string, { name, weight = 1, hedge }: NodeOptions = {}): PlanLeaf {
  return { kind: 'leaf', id: path, path, name, weight, provider: undefined, settings, breaker, hedge };
}

/** A target without a breaker. */
export function unguardedLeaf(path: string): PlanLeaf {
  return { ...leaf(path), breaker: undefined };
}

/** A branch, by default with the path `config`. */
export function branch(
  strategy: Strategy,
  children: readonly PlanNode[],
  { name, weight = 1, hedge, path = 'config' }: NodeOptions & { readonly path?: string } = {},
): PlanBranch {
  return { kind: 'branch', id: path, path, name, weight, strategy, children, hedge };
}

/** Targets `a`, `b`, `c` … with these weights. */
export function leaves(...weights: readonly number[]): PlanLeaf[] {
  return weights.map((weight, index) => leaf(String.fromCharCode(97 + index), { weight }));
}

/** A test's environment. By default breakers are closed, measurements unknown, fields absent and numbers zero. */
interface Scene {
  readonly random?: () => number;
  /** Paths as configs write them. */
  readonly fields?: Readonly<Record<string, unknown>>;
  readonly open?: readonly string[];
  readonly latency?: Readonly<Record<string, number>>;
  readonly cost?: Readonly<Record<string, number>>;
  /** Keeps assignments between requests. */
  readonly assigned?: Map<string, number>;
  /** Keeps turns between requests. */
  readonly turns?: Map<string, number>;
  readonly decisions?: BranchDecision[];
}

export function environment(scene: Scene = {}): PlanEnvironment {
  const { turns = new Map<string, number>(), assigned = new Map<string, number>(), decisions } = scene;
  return {
    random: scene.random ?? (() => 0),
    field: (path: FieldPath) => scene.fields?.[describeFieldPath(path)],
    isOpen: ({ id }) => scene.open?.includes(id) ?? false,
    latency: ({ id }) => scene.latency?.[id],
    cost: ({ id }) => scene.cost?.[id],
    turn({ id }) {
      const turn = turns.get(id) ?? 0;
      turns.set(id, turn + 1);
      return turn;
    },
    assigned: ({ id }, hash) => assigned.get(`${id} ${hash}`),
    assign: ({ id }, hash, child) => void assigned.set(`${id} ${hash}`, child),
    trace: decisions === undefined ? undefined : { branch: (decision) => void decisions.push(decision) },
  };
}

/** Runs a plan to its end; each target answers with the status given for its id, else 500. */
export function steps(
  root: PlanNode,
  world: PlanEnvironment,
  answers: Readonly<Record<string, number>> = {},
  final: readonly string[] = [],
): PlanStep[] {
  const taken: PlanStep[] = [];
  const walk = new PlanWalk(root, world);
  for (let step: PlanStep | undefined = walk.first(); step !== undefined;) {
    taken.push(step);
    const { id } = step.leaf;
    step = walk.next({ status: answers[id] ?? 500, final: final.includes(id) });
  }
  return taken;
}

/** The ids of the targets that a plan tries, one after the other, when all of them fail with 500. */
export function tried(root: PlanNode, world: PlanEnvironment = environment()): string[] {
  return steps(root, world).map((step) => step.leaf.id);
}

/** The id of the one target that a plan picks. */
export function picked(root: PlanNode, world: PlanEnvironment = environment()): string | undefined {
  return new PlanWalk(root, world).first().leaf.id;
}

/** Numbers of at least 0 and below 1 that depend on the seed alone. */
export function seeded(seed: number): () => number {
  let turn = 0;
  return () => hashFraction(String(turn++), seed);
}

/** Number of picks of each target in `requests` requests. */
export function tally(
  root: PlanNode,
  requests: number,
  worldOf: (request: number) => PlanEnvironment,
): Record<string, number> {
  const counts: Record<string, number> = {};
  for (let request = 0; request < requests; request++) {
    const id = picked(root, worldOf(request)) ?? 'none';
    counts[id] = (counts[id] ?? 0) + 1;
  }
  return counts;
}
