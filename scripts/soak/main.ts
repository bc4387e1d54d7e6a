// `npm run soak -- --minutes 60 [--workers N] [--rate N]`: mixed traffic against a gateway with its embedded stores, with
// aborts, refusals, reloads and administrative writes. At the end memory has not grown, handles and sockets are back
// where they were, and every accepted request is stored once, with the same money everywhere; else it exits with 1.
// Linux only.
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { sumOfSeries } from '../../tests/kit/process-kit.ts';
import { untilShipped, withStore } from '../../tests/kit/stored-copies.ts';
import { replaceFile } from '../bench/reload.ts';
import { readMemory } from '../bench/streams.ts';
import { removeFolder, startUpstream, startWeir, type WeirSubject } from '../bench/subject.ts';
import { numberOption } from '../number-option.ts';
import { heldBy, processesOf, type Held } from './observation.ts';
import { Traffic } from './traffic.ts';

const { values: given } = parseArgs({
  options: {
    minutes: { type: 'string', default: '60' },
    workers: { type: 'string', default: '1' },
    rate: { type: 'string', default: '100' },
  },
});
const minutes = numberOption('minutes', given.minutes, { most: 7 * 24 * 60 });
const workers = numberOption('workers', given.workers, { most: 64 });
const perSecond = numberOption('rate', given.rate, { most: 1000 });

/** Share of the time after which caches, pools and heaps have their size; growth counts from there. */
const warmUpShare = 1 / 3;
const samplesInAll = 24;
const longestSampleMs = 60_000;
/** After the traffic, sockets have this long to close. */
const calmMs = 20_000;
/** Growth that is none: what one look differs from the next by, and what a million requests may leave behind. */
const heapSlackMib = 10;
const heapMibPerMillion = 2;
const residentSlackMib = 48;
/** Of each process with workers: their young generations, which no probe takes off, grow up to a setting. */
const youngSlackMib = 192;
const residentMibPerMillion = 8;
/** With fewer requests a slope would be chance. */
const leastMillion = 0.05;

const upstream = await startUpstream();
let weir: WeirSubject | undefined;
try {
  weir = await startWeir({ upstreamPort: upstream.port, config: configText(0), memoryProbe: workers === 1 });
  process.exitCode = (await soak(weir)) ? 0 : 1;
} finally {
  await weir?.stop();
  await upstream.stop();
  if (weir !== undefined) await removeFolder(weir.folder);
}

interface Sample extends Held {
  readonly minutes: number;
  readonly requests: number;
}

/** One line of the verdict. */
interface Bound {
  readonly what: string;
  readonly measured: number | string;
  readonly bound: number | string;
  readonly holds: boolean;
}

async function soak(subject: WeirSubject): Promise<boolean> {
  const ports = { port: subject.port, upstreamPort: upstream.port };
  const look = async (): Promise<Held> => heldBy(await processesOf(subject.child.pid ?? 0), ports);
  let version = 0;
  const traffic = new Traffic({
    port: subject.port,
    perSecond,
    reload: () => reload(subject, ++version),
    reloadEveryMs: Math.max(5000, (minutes * 60_000) / 60),
  });
  const samples: Sample[] = [];
  let warm: { readonly memory: Memory | undefined; readonly requests: number } | undefined;
  try {
    const before = await calmed(look, undefined);
    await traffic.start();
    const begin = performance.now();
    const sampleMs = Math.min(longestSampleMs, (minutes * 60_000) / samplesInAll);
    for (let next = 1; next * sampleMs <= minutes * 60_000 + 1; next++) {
      await pause(Math.max(0, begin + next * sampleMs - performance.now()));
      const elapsed = (performance.now() - begin) / 60_000;
      samples.push({ ...(await look()), minutes: elapsed, requests: traffic.requests });
      if (warm === undefined && elapsed >= minutes * warmUpShare)
        warm = { memory: await memoryOf(subject), requests: traffic.requests };
    }
    await traffic.stop();
    await untilShipped({ data: subject.dataFolder });
    const after = await calmed(look, before);
    const memory = await memoryOf(subject);
    const money = await sumOf(subject, 'weir_cost_usd_total');
    await subject.stop();
    if (warm === undefined) throw new Error('No sample was taken: let it run for longer.');
    print(traffic, samples);
    const million = (traffic.requests - warm.requests) / 1e6;
    return verdict([
      atMost('requests that failed', traffic.failures, 0, traffic.firstFailure),
      atLeast('requests accepted', traffic.requests, 1),
      atLeast('configurations loaded', traffic.reloads, 1),
      atLeast('administrative writes', traffic.writes, 1),
      ...growth(
        warm.memory !== undefined && memory !== undefined
          ? { heap: memory.heap - warm.memory.heap, resident: memory.resident - warm.memory.resident }
          : { resident: residentGrowth(samples) },
        million,
      ),
      atMost('client connections at the end', after.clients, 0),
      atMost('other sockets', after.others, before.others),
      atMost(
        'handles without those of the provider',
        after.handles - after.upstream,
        before.handles - before.upstream,
      ),
      ...(await parity(subject.dataFolder, traffic, money)),
    ]);
  } finally {
    await traffic.stop();
  }
}

/** Every accepted request is a row, once; the sums of rows, of roll-ups and of metrics are the same. */
function parity(dataFolder: string, traffic: Traffic, money: number): Promise<readonly Bound[]> {
  return withStore(dataFolder, async (rowsOf) => {
    const rows = await rowsOf<{
      kind: string;
      copies: string;
      ids: string;
      numbers: string;
    }>(
      `SELECT extract(trace_id, '^soak-([a-z]+)-') AS kind, count() AS copies, uniqExact(trace_id) AS ids,
         sum(toUInt64OrZero(extract(trace_id, '([0-9]+)$'))) AS numbers
       FROM requests WHERE startsWith(trace_id, 'soak-') GROUP BY kind`,
    );
    const [sums] = await rowsOf<{ rows: string; cost: string }>(
      'SELECT count() AS rows, sum(cost) AS cost FROM requests',
    );
    const [minutesSums] = await rowsOf<{ rows: string; cost: string }>(
      'SELECT sum(requests) AS rows, sum(cost_sum) AS cost FROM usage_minutes',
    );
    const byKind = traffic.tallies.map(({ name, accepted, numbers }) => {
      const row = rows.find(({ kind }) => kind === name);
      const measured = `${row?.copies ?? 0} rows, ${row?.ids ?? 0} requests, sum ${row?.numbers ?? 0}`;
      const bound = `${accepted} rows, ${accepted} requests, sum ${numbers}`;
      return { what: `stored: ${name}`, measured, bound, holds: measured === bound };
    });
    return [
      ...byKind,
      same('rows in the roll-up of minutes', Number(minutesSums?.rows), Number(sums?.rows)),
      same('dollars in the roll-up of minutes', minutesSums?.cost ?? '', sums?.cost ?? ''),
      {
        what: 'dollars in the metrics',
        measured: money.toFixed(9),
        bound: Number(sums?.cost).toFixed(9),
        holds: Math.abs(money - Number(sums?.cost)) < 1e-8 && money > 0,
      },
    ];
  });
}

function print(traffic: Traffic, samples: readonly Sample[]): void {
  console.table(
    samples.map(({ minutes: at, requests, rss, handles, clients, upstream: toProvider, others }) => ({
      ...{
        minutes: at.toFixed(2),
        requests,
        rss: Math.round(rss),
        handles,
        clients,
        upstream: toProvider,
        others,
      },
    })),
  );
  console.table(
    traffic.tallies.map(({ name, accepted, statuses }) => ({
      ...{ kind: name, accepted },
      statuses: [...statuses].map(([status, count]) => `${status}: ${count}`).join(', '),
    })),
  );
}

function verdict(bounds: readonly Bound[]): boolean {
  console.table(
    bounds.map(({ what, measured, bound, holds }) => ({
      ...{ what, measured: shown(measured), bound: shown(bound), verdict: holds ? 'ok' : 'BROKEN' },
    })),
  );
  return bounds.every(({ holds }) => holds);
}

function shown(value: number | string): number | string {
  return typeof value === 'number' ? Number(value.toFixed(2)) : value;
}

function atMost(what: string, measured: number, bound: number, note?: string): Bound {
  if (note !== undefined) console.error(`${what}: ${note}`);
  return { what, measured, bound: `<= ${bound.toFixed(2)}`, holds: measured <= bound };
}

function atLeast(what: string, measured: number, bound: number): Bound {
  return { what, measured, bound: `>= ${bound}`, holds: measured >= bound };
}

function same(what: string, measured: number | string, bound: number | string): Bound {
  return { what, measured, bound, holds: measured === bound };
}

/** The growth per 10^6 requests, where there were enough of them to tell one. */
function slope(mib: number, million: number): string {
  return million < leastMillion ? '' : ` (${(mib / million).toFixed(1)} per 10^6 requests)`;
}

/** From the least of the middle third to the least of the last: the memory after a collection. */
function residentGrowth(samples: readonly Sample[]): number {
  const least = (from: number, to: number): number =>
    Math.min(
      ...samples.filter((one) => one.minutes > from && one.minutes <= to * 1.02).map(({ rss }) => rss),
    );
  return least((2 * minutes) / 3, minutes) - least(minutes / 3, (2 * minutes) / 3);
}

/** MiB of a gateway without workers, after a collection. */
interface Memory {
  /** Living objects and buffers. */
  readonly heap: number;
  /** Without the young generation. */
  readonly resident: number;
}

/** Undefined with workers, which are asked for nothing. */
async function memoryOf({ child }: WeirSubject): Promise<Memory | undefined> {
  if (workers > 1) return undefined;
  const { heapUsed, external, resident } = await readMemory(child);
  return { heap: (heapUsed + external) / 2 ** 20, resident: resident / 2 ** 20 };
}

function growth({ heap, resident }: Partial<Memory>, million: number): readonly Bound[] {
  const slack = workers > 1 ? youngSlackMib * (workers + 1) : residentSlackMib;
  const bounds: Bound[] = [];
  if (heap !== undefined)
    bounds.push(
      atMost(`heap growth, MiB${slope(heap, million)}`, heap, heapSlackMib + heapMibPerMillion * million),
    );
  if (resident !== undefined)
    bounds.push(
      atMost(
        `resident growth, MiB${slope(resident, million)}`,
        resident,
        slack + residentMibPerMillion * million,
      ),
    );
  return bounds;
}

/** The held resources once nothing changes any more, or once they are no more than `before`. */
async function calmed(look: () => Promise<Held>, before: Held | undefined): Promise<Held> {
  const end = performance.now() + calmMs;
  let held = await look();
  for (;;) {
    await pause(1000);
    const next = await look();
    const isBack =
      before === undefined
        ? next.handles === held.handles
        : next.clients === 0 &&
          next.others <= before.others &&
          next.handles - next.upstream <= before.handles - before.upstream;
    if (isBack || performance.now() > end) return next;
    held = next;
  }
}

/** The sum of the series of a metric that hold this label; leaves no connection behind. */
async function sumOf({ port }: WeirSubject, name: string, label = ''): Promise<number> {
  const headers = { connection: 'close' };
  const answer = await fetch(`http://127.0.0.1:${port}/metrics`, { headers });
  return sumOfSeries(await answer.text(), name, label);
}

async function reload(subject: WeirSubject, version: number): Promise<void> {
  const loaded = (): Promise<number> => sumOf(subject, 'weir_config_reloads_total', 'result="success"');
  const before = await loaded();
  await replaceFile(subject.configFile, configText(version));
  for (let tries = 0; tries < 600; tries++) {
    if ((await loaded()) > before) return;
    await pause(50);
  }
  throw new Error('The gateway did not load its configuration within 30 seconds.');
}

function configText(version: number): string {
  return `# version ${version}
version: 1
server: { workers: ${workers} }
log: { level: warn }
storage: { cache: { max_bytes: 1048576 } }
providers:
  bench: { dialect: openai-chat, base_url: "http://127.0.0.1:${upstream.port}/v1", service: openai }
pipelines:
  - name: admin
    match: { routes: contributed }
    plugins: [auth, management]
  - name: gateway
    match: { path: /** }
    plugins:
      - auth
      - request-parameters: { params: { blockedKeys: [logit_bias_${version}] } }
      - policies
      - rate-limit: { requests_per_minute: 1000000, requests_per_day: 100000000 }
      - guardrails
      - cache: { mode: simple }
      - provider
      - logger: { bodies: true }
`;
}
