import { appendFile, readFile, writeFile } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { engineOfProcess, residentBytes } from '../../tests/kit/processes.ts';
import { ConfigWrites } from './config-writes.ts';
import { removeFolder, startWeir, type WeirSubject } from './subject.ts';
import { benchKey } from './workload.ts';

/** How much is asked of the gateway, and for how long. */
interface MemoryOptions {
  readonly minutes: number;
  /** Chat requests started each second. Default 20. */
  readonly requestsPerSecond?: number;
  /** Administrative writes started each second. Default 5. */
  readonly writesPerSecond?: number;
  /** A file that gets one line for each sample, as it is taken. */
  readonly samplesFile?: string | undefined;
}

/** Resident memory in MiB of each process, and the work done until then. */
interface MemorySample {
  readonly minutes: number;
  readonly gateway: number;
  readonly resources: number;
  readonly analytics: number;
  /** Living and dead objects in V8's heap of the gateway. */
  readonly heap: number;
  readonly requests: number;
  readonly writes: number;
  readonly failures: number;
}

/** Memory of each process at the end, and its growth. */
interface MemoryFigures {
  readonly minutes: number;
  readonly requests: number;
  readonly writes: number;
  readonly failures: number;
  /** MiB, by process. */
  readonly held: Readonly<Record<Process, number>>;
  /** MiB a minute: from the least of the second third of the time to the least of the last, by process. */
  readonly growth: Readonly<Record<Process, number>>;
}

type Process = 'gateway' | 'resources' | 'analytics';

const maxInFlight = 32;
const secondsPerMinute = 60;
/** One sample a minute, or this many in a shorter time. */
const leastSamples = 12;
const columns = [
  ...(['minutes', 'gateway', 'resources', 'analytics', 'heap', 'requests', 'writes', 'failures'] as const),
];
const shippedConfig = fileURLToPath(new URL('../../gateway.config.yaml', import.meta.url));

/** The memory of a gateway with its embedded stores, on the shipped configuration, under steady requests and writes. */
export async function measureMemory(options: MemoryOptions): Promise<MemoryFigures> {
  const { minutes, samplesFile } = options;
  const sampleSeconds = Math.min(60, (minutes * secondsPerMinute) / leastSamples);
  const weir = await startWeir({ upstreamPort: 0, config: await readFile(shippedConfig, 'utf8') });
  const work = new SteadyWork(weir, options);
  try {
    const processes = await processesOf(weir);
    const begin = performance.now();
    const samples: MemorySample[] = [];
    if (samplesFile !== undefined) await writeFile(samplesFile, `${columns.join('\t')}\n`);
    for (let next = 1; next * sampleSeconds <= minutes * secondsPerMinute + 0.001; next += 1) {
      await pause(Math.max(0, begin + next * sampleSeconds * 1000 - performance.now()));
      const sample = await take(weir, processes, work, (performance.now() - begin) / 60_000);
      samples.push(sample);
      const line = columns.map((column) => sample[column].toFixed(column === 'minutes' ? 2 : 0)).join('\t');
      if (samplesFile !== undefined) await appendFile(samplesFile, `${line}\n`);
    }
    await work.stop();
    if (work.firstFailure !== undefined) console.log(`The first failure: ${work.firstFailure}`);
    return figuresOf(samples, minutes);
  } finally {
    await work.stop();
    await weir.stop();
    await removeFolder(weir.folder);
  }
}

/**
 * The least of a third is the memory after a collection: between two collections heaps grow by more than a leak would.
 * In the first third caches and heaps fill up to their bounds.
 */
function figuresOf(samples: readonly MemorySample[], minutes: number): MemoryFigures {
  const last = samples.at(-1);
  if (last === undefined) throw new Error('No sample was taken: let it run for longer.');
  const third = minutes / 3;
  const least = (of: Process, from: number): number =>
    Math.min(
      ...samples.filter(({ minutes: at }) => at > from && at <= from + third * 1.01).map((one) => one[of]),
    );
  const growth = (of: Process): number => (least(of, 2 * third) - least(of, third)) / third;
  const { requests, writes, failures, gateway, resources, analytics } = last;
  return {
    minutes,
    requests,
    writes,
    failures,
    held: { gateway, resources, analytics },
    growth: { gateway: growth('gateway'), resources: growth('resources'), analytics: growth('analytics') },
  };
}

type Processes = Readonly<Record<Process, number>>;

async function take(
  weir: WeirSubject,
  processes: Processes,
  { requests, writes, failures }: SteadyWork,
  minutes: number,
): Promise<MemorySample> {
  return {
    minutes,
    requests,
    writes,
    failures,
    gateway: await residentMib(processes.gateway),
    resources: await residentMib(processes.resources),
    analytics: await residentMib(processes.analytics),
    heap: (await weir.metric('nodejs_heap_size_used_bytes')) / 2 ** 20,
  };
}

async function residentMib(pid: number): Promise<number> {
  return (await residentBytes(pid)) / 2 ** 20;
}

/** Linux only. */
async function processesOf({ child }: WeirSubject): Promise<Processes> {
  const gateway = child.pid ?? 0;
  const resources = await engineOfProcess(gateway, 'pglite-child');
  const analytics = await engineOfProcess(gateway, 'chdb-child');
  if (resources === undefined || analytics === undefined)
    throw new Error('The gateway runs no embedded stores.');
  return { gateway, resources, analytics };
}

/** Chats with the built-in mock, and configs that are made, changed and deleted, at a rate until it is stopped. */
class SteadyWork {
  requests = 0;
  failures = 0;
  firstFailure: string | undefined;
  readonly #weir: WeirSubject;
  readonly #timers: readonly NodeJS.Timeout[];
  readonly #inFlight = new Set<Promise<void>>();
  readonly #writes = new ConfigWrites((method, target, body) => this.#ask(method, target, body));
  #isWriting = false;

  constructor(weir: WeirSubject, { requestsPerSecond = 20, writesPerSecond = 5 }: MemoryOptions) {
    this.#weir = weir;
    this.#timers = [
      setInterval(() => {
        if (this.#inFlight.size < maxInFlight) this.#begin(() => this.#chat());
      }, 1000 / requestsPerSecond),
      // One after the other: each depends on the one before.
      setInterval(() => {
        if (this.#isWriting) return;
        this.#isWriting = true;
        this.#begin(() => this.#writes.next().finally(() => (this.#isWriting = false)));
      }, 1000 / writesPerSecond),
    ];
  }

  async stop(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    await Promise.all(this.#inFlight);
  }

  #begin(work: () => Promise<void>): void {
    const running = work()
      .catch((error: unknown) => {
        this.failures += 1;
        this.firstFailure ??= String(error);
      })
      .finally(() => this.#inFlight.delete(running));
    this.#inFlight.add(running);
  }

  get writes(): number {
    return this.#writes.done;
  }

  async #chat(): Promise<void> {
    const content = `Question ${this.requests}: how does the flow over a weir grow with the head?`;
    await this.#ask('POST', '/v1/chat/completions', {
      model: 'mock-gpt',
      messages: [{ role: 'user', content }],
    });
    this.requests += 1;
  }

  async #ask(method: string, target: string, body?: object): Promise<unknown> {
    const answer = await fetch(`http://127.0.0.1:${this.#weir.port}${target}`, {
      method,
      headers: { 'x-service-api-key': benchKey, 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(30_000),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${target} answered ${answer.status}: ${text}`);
    return text === '' ? undefined : JSON.parse(text);
  }
}
