import { compileConfig } from '../../core/routing/plan/compile-config.ts';
import { parseInlineConfig } from '../../core/routing/plan/read-config.ts';
import type { PlanEnvironment, PlanNode } from '../../core/routing/plan/plan-node.ts';
import { readField, type RequestFields } from '../../core/routing/plan/field-path.ts';
import { PlanWalk } from '../../core/routing/plan/plan-walk.ts';
import { median } from './cpu.ts';
import { benchConfig, removeFolder, startUpstream, startWeir } from './subject.ts';
import { compareKinds } from './two-kinds.ts';
import { question } from '../../main/bench-command/load.ts';
import { configuredRequestBytes, requestBytes } from './workload.ts';

/** Cost of a plan of three levels and twenty targets, medians over the rounds. */
interface PlanFigures {
  /** Levels of strategies over the targets. */
  readonly levels: number;
  readonly targets: number;
  /** The walk alone, in this process: from the compiled config to the one target that answers. */
  readonly walk_us: number;
  /** A chat request without a config, through the gateway, saturated. */
  readonly plain_us_per_request: number;
  /** The same request, with the config named in its header. */
  readonly planned_us_per_request: number;
  /** Mean of the rounds' differences, without the outermost, and its standard error. */
  readonly added_us_per_request: number;
  readonly added_error_us: number;
}

const slug = 'bench-plan';
const walksPerRound = 200_000;

/** CPU of a plan by itself, and of requests with one beside requests without, in turns. */
export async function measurePlan(quick: boolean): Promise<PlanFigures> {
  const rounds = quick ? 5 : 15;
  const root = compiledRoot();
  const walk = measureWalk(root, rounds);
  const upstream = await startUpstream();
  const weir = await startWeir({
    upstreamPort: upstream.port,
    config: `${benchConfig(upstream.port)}configs: ${JSON.stringify({ [slug]: benchPlan })}\n`,
  });
  try {
    const planned = configuredRequestBytes(weir.port, slug);
    const { plain_us, other_us, added_us, added_error_us } = await compareKinds(
      weir,
      quick,
      requestBytes(weir.port, false),
      planned,
    );
    return {
      levels: levelsOf(root),
      targets: targetsOf(root),
      walk_us: walk,
      plain_us_per_request: plain_us,
      planned_us_per_request: other_us,
      added_us_per_request: added_us,
      added_error_us,
    };
  } finally {
    await weir.stop();
    await upstream.stop();
    await removeFolder(weir.folder);
  }
}

function weighted(name: string, count: number): object {
  const targets = Array.from({ length: count }, (_, index) => ({ provider: 'bench', weight: index + 1 }));
  return { name, strategy: { mode: 'loadbalance' }, targets };
}

/** The bench's requests meet the second condition, and take one of eight targets below it. */
const benchPlan = {
  strategy: {
    mode: 'conditional',
    conditions: [
      { query: { 'metadata.plan': { $eq: 'paid' } }, then: 'paid' },
      {
        query: { 'params.model': { $in: ['gpt-4o', 'gpt-4o-mini'] }, 'params.temperature': { $lte: 1 } },
        then: 'small',
      },
    ],
    default: 'other',
  },
  targets: [
    { name: 'paid', strategy: { mode: 'fallback' }, targets: [weighted('first', 3), weighted('second', 3)] },
    { name: 'small', strategy: { mode: 'fallback' }, targets: [weighted('first', 4), weighted('second', 4)] },
    { name: 'other', strategy: { mode: 'fallback' }, targets: [weighted('first', 3), weighted('second', 3)] },
  ],
};

function compiledRoot(): PlanNode {
  const parsed = parseInlineConfig(JSON.stringify(benchPlan));
  if (!parsed.ok) throw new Error(`The plan of the bench is no config: ${JSON.stringify(parsed.issues)}`);
  const setup = { id: slug, slug, configs: new Map(), knowsProvider: () => undefined };
  const compiled = compileConfig(parsed.config, setup);
  if (!compiled.ok) throw new Error(`The plan of the bench is not valid: ${JSON.stringify(compiled.issues)}`);
  return compiled.config.root;
}

/** Microseconds of CPU for one walk: one target is taken and answers. */
function measureWalk(root: PlanNode, rounds: number): number {
  const costs: number[] = [];
  // The first round pays for the compiler.
  for (let round = 0; round <= rounds; round++) {
    const before = process.cpuUsage();
    for (let run = 0; run < walksPerRound; run++) takeOne(root);
    const { user, system } = process.cpuUsage(before);
    if (round > 0) costs.push((user + system) / walksPerRound);
  }
  return median(costs);
}

function takeOne(root: PlanNode): void {
  const walk = new PlanWalk(root, new BenchEnvironment());
  walk.first();
  if (walk.next({ status: 200, final: false }) !== undefined)
    throw new Error('The plan of the bench goes on after an answer.');
}

/** Environment of the bench's request; no breaker is open. One object per walk, as one per request. */
class BenchEnvironment implements PlanEnvironment {
  readonly trace = undefined;
  private readonly fields: RequestFields = {
    metadata: {},
    params: question,
    url: { pathname: '/v1/chat/completions' },
    traceId: 'bench',
    apiKeyId: 'bench',
  };

  random(): number {
    return Math.random();
  }

  field(path: readonly (string | number)[]): unknown {
    return readField(this.fields, path);
  }

  isOpen(): boolean {
    return false;
  }

  latency(): undefined {
    return undefined;
  }

  cost(): undefined {
    return undefined;
  }

  turn(): number {
    return 0;
  }

  assigned(): undefined {
    return undefined;
  }

  assign(): void {
    // No branch of the bench's plan keeps assignments.
  }
}

function levelsOf(node: PlanNode): number {
  return node.kind === 'leaf' ? 0 : 1 + Math.max(...node.children.map(levelsOf));
}

function targetsOf(node: PlanNode): number {
  return node.kind === 'leaf' ? 1 : node.children.reduce((sum, child) => sum + targetsOf(child), 0);
}
