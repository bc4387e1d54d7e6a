import type { Clock } from '../ports/clock.ts';
import type { Gauge, Metrics } from '../ports/metrics.ts';

/** A store or server beside the gateway. Requests are served without it, with less: it never decides readiness. */
export interface Dependency {
  readonly name: string;
  /** Resolves when it works; rejects with the reason. */
  check(): Promise<void>;
}

/** What was found of each dependency, by name: `ok`, or why it does not work. */
type Findings = Readonly<Record<string, string>>;

/** A dependency without an answer for so long does not work. */
const answerMs = 2000;
/** A page waits so long for answers; then it tells what was found before. */
const pageMs = 250;
/** Without a page that asks, dependencies are looked at so often, for the metric. */
const lookEveryMs = 5000;

const ok = 'ok';

/**
 * Looks at the dependencies: when a page asks, and every five seconds for the gauge `weir_dependency_up`. Each gets one
 * question at a time, so that a server that swallows packets does not collect them.
 */
export class Dependencies {
  readonly #watched: readonly Watched[];
  readonly #clock: Clock;
  #cancel: () => void = () => undefined;

  constructor(dependencies: readonly Dependency[], { clock, metrics }: { clock: Clock; metrics: Metrics }) {
    this.#clock = clock;
    const up = metrics.gauge({
      name: 'weir_dependency_up',
      help: '1 while a store or server beside the gateway works, 0 while it does not.',
      labels: ['dependency'],
    });
    this.#watched = dependencies.map(
      (dependency) => new Watched(dependency, clock, up({ dependency: dependency.name })),
    );
    this.#follow();
  }

  /** What was found last. */
  get known(): Findings {
    return Object.fromEntries(this.#watched.map(({ name, finding }) => [name, finding]));
  }

  /** Asks all of them, and resolves to what is known when they have answered, or after a quarter of a second. */
  async look(): Promise<Findings> {
    const answers = this.#watched.map((watched) => watched.ask());
    let cancel: () => void = () => undefined;
    const late = new Promise<void>((resolve) => (cancel = this.#clock.after(pageMs, resolve)));
    await Promise.race([Promise.all(answers), late]);
    cancel();
    return this.known;
  }

  /** Ends looking. */
  close(): void {
    this.#cancel();
  }

  #follow(): void {
    for (const watched of this.#watched) void watched.ask();
    this.#cancel = this.#clock.after(lookEveryMs, () => this.#follow());
  }
}

/** The names of those that do not work. */
export function degradedOf(findings: Findings): string[] {
  return Object.keys(findings).filter((name) => findings[name] !== ok);
}

/** One dependency, and what was found of it last. */
class Watched {
  finding = 'no answer yet';
  readonly #dependency: Dependency;
  readonly #clock: Clock;
  readonly #up: Gauge;
  #asking: Promise<void> | undefined;

  constructor(dependency: Dependency, clock: Clock, up: Gauge) {
    this.#dependency = dependency;
    this.#clock = clock;
    this.#up = up;
    up.set(0);
  }

  get name(): string {
    return this.#dependency.name;
  }

  /** Resolves when there is an answer, or none in time; never rejects. */
  ask(): Promise<void> {
    this.#asking ??= this.#answer().then((finding) => {
      this.#asking = undefined;
      this.finding = finding;
      this.#up.set(finding === ok ? 1 : 0);
    });
    return this.#asking;
  }

  async #answer(): Promise<string> {
    let cancel: () => void = () => undefined;
    const late = new Promise<string>((resolve) => {
      cancel = this.#clock.after(answerMs, () => resolve(`no answer within ${answerMs} ms`));
    });
    try {
      return await Promise.race([this.#dependency.check().then(() => ok), late]);
    } catch (error) {
      return error instanceof Error ? error.message : String(error);
    } finally {
      cancel();
    }
  }
}
