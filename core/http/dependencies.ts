import type { Clock } from '../ports/clock.ts';
import type { Gauge, Metrics } from '../ports/metrics.ts';
import { messageOf } from '../errors/gateway-error.ts';

/** A store or server beside the gateway. Without it requests are served in a degraded way, so it never affects readiness. */
export interface Dependency {
  readonly name: string;
  /** Resolves when it works; rejects with the reason. */
  check(): Promise<void>;
}

/** State of each dependency by name: `ok`, or the reason why it does not work. */
type Findings = Readonly<Record<string, string>>;

/** Deadline of a check; without an answer the dependency counts as failed. */
const answerMs = 2000;
/** Time for which a page waits for answers; then it shows the previous findings. */
const pageMs = 250;
/** Interval of the checks for the metric. */
const lookEveryMs = 5000;

const ok = 'ok';

/**
 * Checks the dependencies on demand of a page, and every five seconds for the gauge `weir_dependency_up`. Each has one
 * check at a time, so that checks do not pile up on a server that drops packets.
 */
export class Dependencies {
  readonly #watched: readonly Watched[];
  readonly #clock: Clock;
  #cancel: () => void = () => undefined;

  constructor(dependencies: readonly Dependency[], { clock, metrics }: { clock: Clock; metrics: Metrics }) {
    this.#clock = clock;
    const up = metrics.gauge({
      name: 'weir_dependency_up',
      help: '1 while a store or server that the gateway depends on works, else 0.',
      over: 'min',
      labels: ['dependency'],
    });
    this.#watched = dependencies.map(
      (dependency) => new Watched(dependency, clock, up({ dependency: dependency.name })),
    );
    this.#follow();
  }

  /** The last findings. */
  get known(): Findings {
    return Object.fromEntries(this.#watched.map(({ name, finding }) => [name, finding]));
  }

  /** Checks all of them; resolves with the findings when all have answered, or after 250 ms. */
  async look(): Promise<Findings> {
    const answers = this.#watched.map((watched) => watched.ask());
    let cancel: () => void = () => undefined;
    const late = new Promise<void>((resolve) => (cancel = this.#clock.after(pageMs, resolve)));
    await Promise.race([Promise.all(answers), late]);
    cancel();
    return this.known;
  }

  /** Ends the periodic checks. */
  close(): void {
    this.#cancel();
  }

  #follow(): void {
    for (const watched of this.#watched) void watched.ask();
    this.#cancel = this.#clock.after(lookEveryMs, () => this.#follow());
  }
}

/** Names of the dependencies that do not work. */
export function degradedOf(findings: Findings): string[] {
  return Object.keys(findings).filter((name) => findings[name] !== ok);
}

/** One dependency with its last finding. */
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

  /** Resolves after an answer or the deadline; never rejects. */
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
      return messageOf(error);
    } finally {
      cancel();
    }
  }
}
