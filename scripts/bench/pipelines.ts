import { compilePipelines } from '../../core/http/route-table.ts';
import { compilePipeline } from '../../core/pipeline/compile.ts';
import { median } from './cpu.ts';

/** Nanoseconds of CPU to find the pipeline of a request among some, medians over the rounds. */
interface MatchFigure {
  readonly pipelines: number;
  /** A request for the first one. */
  readonly first_ns: number;
  readonly last_ns: number;
  /** A request for the last one, whose path is spelled with a capital. */
  readonly spelled_ns: number;
  /** The patterns begin with a wildcard; a request for the last one. */
  readonly wild_ns: number;
}

const counts = [1, 3, 10, 100, 1000];
/** Of one round with one pipeline; the more there are, the fewer. */
const matchesPerRound = 400_000;

/** Cost of finding the pipeline of a request, in this process. */
export function measurePipelines(quick: boolean): readonly MatchFigure[] {
  const rounds = quick ? 5 : 15;
  return counts.map((count) => {
    const last = count - 1;
    const wild = (index: number): string => `/*/team-${index}/**`;
    return {
      pipelines: count,
      first_ns: measure(count, plain, '/team-0/chat/completions', rounds),
      last_ns: measure(count, plain, `/team-${last}/chat/completions`, rounds),
      spelled_ns: measure(count, plain, `/Team-${last}/chat/completions`, rounds),
      wild_ns: measure(count, wild, `/eu/team-${last}/chat/completions`, rounds),
    };
  });
}

export function printPipelines(
  figures: readonly MatchFigure[],
  verdict: (name: string, value: number, bound: number) => void,
): void {
  console.log(
    '\nthe pipeline of a request, ns CPU: pipelines; the first, the last, the last in another spelling, the last behind a wildcard',
  );
  for (const { pipelines, first_ns: first, last_ns: last, spelled_ns: spelled, wild_ns: wild } of figures)
    console.log(
      `${String(pipelines).padEnd(9)} ${[first, last, spelled, wild].map((cell) => cell.toFixed(0).padStart(9)).join(' ')}`,
    );
  verdict(
    'ns CPU to find the last of 1,000 pipelines',
    figures.find(({ pipelines }) => pipelines === 1000)?.last_ns ?? Number.NaN,
    2000,
  );
}

function plain(index: number): string {
  return `/team-${index}/**`;
}

function measure(count: number, pattern: (index: number) => string, path: string, rounds: number): number {
  const { routes } = compilePipelines(
    Array.from({ length: count }, (_, index) =>
      compilePipeline({ name: `team-${index}`, match: { path: pattern(index) }, plugins: [] }, []),
    ),
  );
  const matches = Math.ceil(matchesPerRound / count);
  const costs: number[] = [];
  // The first round pays for the compiler.
  for (let round = 0; round <= rounds; round++) {
    const before = process.cpuUsage();
    for (let run = 0; run < matches; run++)
      if (routes.match('POST', path, false) === undefined) throw new Error(`No pipeline serves ${path}.`);
    const { user, system } = process.cpuUsage(before);
    if (round > 0) costs.push(((user + system) / matches) * 1000);
  }
  return median(costs);
}
