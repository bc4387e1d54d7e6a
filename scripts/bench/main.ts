// `npm run bench -- [--quick] [--json FILE] [--only cpu,chain,plan,pipelines,translate,deno,streams,reload,kill,keys,records,virtual-key,analytics,bodies,row-cost,limits,guardrails,plugins,mcp,workers,in-force,growth,console]`, and `--only memory [--minutes 60] [--samples FILE]`: the gateway beside a bare proxy, in the same run.
import { writeFile } from 'node:fs/promises';
import os from 'node:os';
import { parseArgs } from 'node:util';
import { measureAnalytics, printAnalytics } from './analytics.ts';
import { measureChain } from './chain.ts';
import { measureConsole, printConsole } from './console.ts';
import { measureCpu } from './cpu.ts';
import { measureDeno } from './deno.ts';
import { measureGrowth } from './growth.ts';
import { measureGuardrails } from './guardrails.ts';
import { measureKeys } from './keys.ts';
import { measureKill } from './kill.ts';
import { measureRowCost } from './analytics/row-cost.ts';
import { measureLargeBodies, measureLargeBodyCost } from './large-bodies.ts';
import { measureLimits } from './limits.ts';
import { measureMcp } from './mcp.ts';
import { measurePipelines, printPipelines } from './pipelines.ts';
import { measurePlan } from './plan.ts';
import { measureVirtualKey } from './virtual-key.ts';
import { measureRecords } from './records.ts';
import { measurePlugins } from './plugins.ts';
import { measureReload } from './reload.ts';
import { measureMemory } from './steady-memory.ts';
import { measureIdleStreams } from './streams.ts';
import { measureTranslation } from './translate.ts';
import { measureIdleMemory } from './idle-memory.ts';
import { measureInForce } from './in-force.ts';
import { measureWorkers } from './workers.ts';

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    json: { type: 'string' },
    only: { type: 'string' },
    minutes: { type: 'string', default: '60' },
    samples: { type: 'string' },
  },
});
const only = new Set(
  values.only?.split(',') ?? [
    'cpu',
    'chain',
    'plan',
    'pipelines',
    'translate',
    'deno',
    'streams',
    'reload',
    'kill',
    'keys',
    'records',
    'virtual-key',
    'analytics',
    'bodies',
    'row-cost',
    'limits',
    'guardrails',
    'plugins',
    'mcp',
    'workers',
    'idle-memory',
    'in-force',
    'growth',
    'console',
  ],
);
const { quick } = values;

const machine = {
  cpu: os.cpus()[0]?.model.trim() ?? 'unknown',
  cores: os.cpus().length,
  memory_gib: Math.round(os.totalmem() / 2 ** 30),
  node: process.version,
  platform: `${os.platform()} ${os.release()}`,
  date: new Date().toISOString().slice(0, 10),
  command: `npm run bench -- ${process.argv.slice(2).join(' ')}`.trim(),
};

console.log(`Machine: ${machine.cores} × ${machine.cpu}, ${machine.memory_gib} GiB, Node ${machine.node}`);
const cpu = only.has('cpu') ? await measureCpu(quick) : undefined;
const chain = only.has('chain') ? await measureChain(quick) : undefined;
const plan = only.has('plan') ? await measurePlan(quick) : undefined;
const pipelines = only.has('pipelines') ? measurePipelines(quick) : undefined;
const translate = only.has('translate') ? await measureTranslation(quick) : undefined;
const deno = only.has('deno') ? await measureDeno(quick) : undefined;
const streams = only.has('streams') ? await measureIdleStreams(quick) : undefined;
const reload = only.has('reload') ? await measureReload(quick) : undefined;
const kill = only.has('kill') ? await measureKill(quick) : undefined;
const keys = only.has('keys') ? await measureKeys(quick) : undefined;
const records = only.has('records') ? await measureRecords(quick) : undefined;
const virtualKey = only.has('virtual-key') ? await measureVirtualKey(quick) : undefined;
const analytics = only.has('analytics') ? await measureAnalytics(quick) : undefined;
const bodies = only.has('bodies') ? await measureLargeBodies() : undefined;
const bodyCost = only.has('bodies') ? await measureLargeBodyCost() : undefined;
const rowCost = only.has('row-cost') ? await measureRowCost(quick) : undefined;
const plugins = only.has('plugins') ? await measurePlugins(quick) : undefined;
const limits = only.has('limits') ? await measureLimits(quick) : undefined;
const guardrails = only.has('guardrails') ? await measureGuardrails(quick) : undefined;
const mcp = only.has('mcp') ? await measureMcp(quick) : undefined;
const workers = only.has('workers') ? await measureWorkers(quick) : undefined;
const inForce = only.has('in-force') ? await measureInForce(quick) : undefined;
const growth = only.has('growth') ? await measureGrowth(quick) : undefined;
const consoleFigures = only.has('console') ? await measureConsole(quick) : undefined;
const idleMemory = only.has('idle-memory') ? await measureIdleMemory() : undefined;
// An hour: only when it is named.
const memory = only.has('memory')
  ? await measureMemory({ minutes: Number(values.minutes), samplesFile: values.samples })
  : undefined;
const result = {
  machine,
  subjects: cpu?.subjects ?? {},
  ratios: cpu?.ratios ?? {},
  chain,
  plan,
  pipelines,
  virtual_key: virtualKey,
  translate,
  deno,
  streams,
  reload,
  kill,
  keys,
  records,
  analytics,
  bodies,
  large_body_cost: bodyCost,
  row_cost: rowCost,
  limits,
  guardrails,
  plugins,
  mcp,
  workers,
  console: consoleFigures,
  idle_memory: idleMemory,
  in_force: inForce,
  growth,
  memory,
};

if (cpu) {
  console.log(
    `\nat ${cpu.requests_per_second} requests/s: CPU µs/request, p50 ms, p99 ms; saturated: CPU µs/request, requests/s; CPU µs/chunk`,
  );
  for (const [name, one] of Object.entries(cpu.subjects)) {
    const cells = [
      one.cpu_us_per_request,
      one.p50_ms,
      one.p99_ms,
      one.cpu_us_per_request_saturated,
      one.requests_per_second,
      one.cpu_us_per_chunk,
    ];
    console.log(
      `${name.padEnd(9)} ${cells.map((cell) => cell.toFixed(cell < 10 ? 2 : 1).padStart(12)).join(' ')}`,
    );
  }
  verdict('CPU per request at one rate, weir / bare', cpu.ratios.cpu_per_request, 1.6);
  verdict('CPU per request saturated, weir / bare', cpu.ratios.cpu_per_request_saturated, 1.6);
  verdict('CPU per chunk, weir / bare', cpu.ratios.cpu_per_chunk, 1.3);
}
if (workers) {
  console.log('\none and two processes, saturated: CPU µs/request of all processes, requests/s');
  for (const name of ['bare', 'bare_2', 'weir', 'weir_2'] as const)
    console.log(
      `${name.padEnd(9)} ${workers.cpu_us[name].toFixed(1).padStart(12)} ${workers.requests_per_second[name].toFixed(1).padStart(12)}`,
    );
  console.log(`bare proxy, two processes / one: ${workers.bare_ratio.toFixed(2)}`);
  verdict(
    'CPU with two workers / with one, over the same of the bare proxy',
    workers.weir_ratio / workers.bare_ratio,
    1.1,
  );
}
if (growth) {
  const { requests, failed, living_mib: living, growth_mib: grown } = growth;
  console.log(
    `\nliving memory over ${requests} requests, MiB: ${living.map((mib) => mib.toFixed(1)).join(', ')}`,
  );
  verdict('requests that failed', failed, 0);
  verdict('MiB by which it grew', grown, 2);
}
if (inForce) {
  console.log(`\n${inForce.changes} changes on two gateways with two workers each, ms: p50, p95, longest`);
  for (const kind of ['key', 'config'] as const)
    for (const name of ['call', 'workers', 'replica'] as const) {
      const { p50, p95, max } = inForce[kind][name];
      console.log(
        `${`${kind}, ${name}`.padEnd(17)} ${[p50, p95, max].map((cell) => cell.toFixed(1).padStart(9)).join(' ')}`,
      );
    }
  for (const kind of ['key', 'config'] as const) {
    verdict(`ms until a changed ${kind} is in force on every worker`, inForce[kind].workers.max, 50);
    verdict(`ms until a changed ${kind} is in force on every replica`, inForce[kind].replica.max, 1000);
  }
}
if (idleMemory) {
  console.log(
    '\nidle, with embedded stores and two workers, MiB: resident, proportional, without pages of files',
  );
  for (const one of [...idleMemory.processes, { name: 'all', ...idleMemory.sum }])
    console.log(
      `${one.name.padEnd(17)} ${[one.resident, one.proportional, one.anonymous].map((cell) => cell.toFixed(0).padStart(9)).join(' ')}`,
    );
  verdict('MiB of a worker, proportional', idleMemory.worker, 90);
  verdict('MiB of all processes, proportional', idleMemory.sum.proportional, 600);
}
if (chain) {
  console.log(`\nfirst chain with the cache, saturated; bare ${chain.bare_us.toFixed(1)} µs/request:`);
  verdict(`CPU per cache hit / bare${between(chain.spread.hit)}`, chain.hit_us / chain.bare_us, 0.8);
  verdict(`CPU per cache miss / bare${between(chain.spread.miss)}`, chain.miss_us / chain.bare_us, 1.7);
  if (chain.redis_us !== undefined)
    verdict(
      `CPU per miss with Redis / bare${between(chain.spread.redis)}`,
      chain.redis_us / chain.bare_us,
      2.2,
    );
}
if (plan) {
  console.log(
    `\na plan of ${plan.levels} levels and ${plan.targets} targets; a request without one ${plan.plain_us_per_request.toFixed(1)} µs CPU, with it ${plan.planned_us_per_request.toFixed(1)}:`,
  );
  verdict('µs CPU of the walk alone', plan.walk_us, 5);
  verdict(`µs CPU more per request, saturated${plusMinus(plan)}`, plan.added_us_per_request, 5);
}
if (pipelines) printPipelines(pipelines, verdict);
if (guardrails) {
  const each = Object.entries(guardrails.checks_us).map(([id, cost]) => `${id} ${cost.toFixed(1)}`);
  console.log(`\nguardrails, µs CPU of one check over a request of 2 KB: ${each.join(', ')}`);
  verdict('µs CPU of ten local checks over a request of 2 KB', guardrails.request_us, 40);
  verdict('µs CPU of a window for each chunk', guardrails.chunk_us, 4);
  verdict('µs CPU of a request that nothing judges', guardrails.none_us, 1);
}
if (virtualKey) {
  console.log(
    `\na provider in a header ${virtualKey.named_us_per_request.toFixed(1)} µs CPU, a saved config with a virtual key ${virtualKey.saved_us_per_request.toFixed(1)}:`,
  );
  verdict(`µs CPU more per request, saturated${plusMinus(virtualKey)}`, virtualKey.added_us_per_request, 6);
}
if (translate) {
  console.log(
    `\nstreams translated from chat to messages: ${translate.translated_us_per_chunk.toFixed(1)} µs CPU per chunk, passed on: ${translate.passed_us_per_chunk.toFixed(1)}`,
  );
  verdict('CPU per translated chunk / passed on', translate.ratio, 3);
  for (const { pair, longest_ms: longest } of translate.encodings)
    verdict(`ms without a turn of the event loop, 100k tokens ${pair}`, longest, 10);
}
if (deno) {
  console.log(`\nat ${deno.requests_per_second} requests/s, the same sources on both runtimes:`);
  verdict('CPU per request, Deno / Node', deno.ratio, 2);
}
if (streams) {
  console.log(
    `\n${streams.streams} idle streams, each: resident ${kibibytes(streams.bare.resident)} bare, ${kibibytes(streams.weir.resident)} weir; living objects and buffers ${kibibytes(streams.bare.heap_and_external)}, ${kibibytes(streams.weir.heap_and_external)}`,
  );
  if (streams.fewer_because !== undefined)
    console.log(`Fewer streams than wanted: ${streams.fewer_because}.`);
  verdict('resident memory per idle stream, weir / bare', streams.ratios.resident, 1.3);
  verdict('objects and buffers per idle stream, weir / bare', streams.ratios.heap_and_external, 1.3);
  verdict('idle streams that ended', streams.ended, 0);
}
if (reload) {
  console.log(
    `\n${reload.swaps} reloads under ${reload.requests_per_second} requests/s with ${reload.streams} open streams:`,
  );
  verdict('failed requests', reload.failed_requests, 0);
  verdict('cut streams', reload.cut_streams, 0);
  verdict('sockets more than before', Math.max(0, reload.sockets_after - reload.sockets_before), 0);
  verdict('MiB more per swap of options', reload.mib_per_option_swap, 0.05);
  verdict('MiB more per swap of plugin code', reload.mib_per_code_swap, 1);
}
if (kill) {
  console.log(
    `\nkill -9 under load, ${kill.rounds} rounds, ${kill.rows_flushed} rows in the journal at the kill:`,
  );
  verdict('flushed rows missing after restart', kill.missing, 0);
  verdict('rows stored twice', kill.doubled, 0);
}
if (keys) {
  console.log(
    `\n${keys.keys} service keys in the embedded store; a start without them ${keys.start_seconds_without.toFixed(1)} s:`,
  );
  verdict('µs CPU to find a key', keys.lookup_us, 2);
  verdict('bytes of memory per key', keys.bytes_per_key, 1024);
  verdict('seconds until it listens', keys.start_seconds, 3);
  verdict('ms for the first page of keys', keys.list_ms, 20);
  verdict('ms for the page in the middle', keys.list_middle_ms, 20);
  verdict('ms for the last page of keys', keys.list_last_ms, 20);
  console.log(`     audited writes per second: ${keys.audited_writes_per_second.toFixed(0)}`);
}
if (records) {
  console.log(
    `\n${records.configs} configs and ${records.integrations} integrations in the embedded store; a start without them ${records.start_seconds_without.toFixed(1)} s, with them ${records.start_seconds.toFixed(1)} s:`,
  );
  verdict('seconds to load them', records.load_seconds, 2);
  verdict('seconds more until it listens', records.start_seconds - records.start_seconds_without, 2);
  verdict('ms for the first page of configs', records.list_ms, 20);
  verdict('ms for the page in the middle', records.list_middle_ms, 20);
  verdict('ms for the last page of configs', records.list_last_ms, 20);
}
if (analytics) printAnalytics(analytics, verdict);
if (consoleFigures) printConsole(consoleFigures, verdict);
if (rowCost) {
  console.log('\nrows with bodies of 2 KB, roll-ups on, in an empty embedded store:');
  for (const {
    rows_per_second: rate,
    text_index: index,
    engine_us_per_row: cost,
    bound_us: bound,
  } of rowCost)
    verdict(
      `µs CPU of the engine's process a row, at ${rate} rows/s, ${index ? 'with' : 'without'} text_index`,
      cost,
      bound,
    );
}
if (bodyCost) {
  console.log('\na request of 10 MB, ms of CPU:');
  for (const { name, bare_ms: bare, unread_ms: unread, read_ms: read, worked_ms: worked } of bodyCost) {
    console.log(
      `     ${name}: bare ${bare.toFixed(1)}, unread ${unread.toFixed(1)}, read ${read.toFixed(1)}`,
    );
    verdict(`${name}: CPU that no plugin reads / bare`, unread / bare, 2);
    verdict(`${name}: CPU that plugins read and log / bare`, read / bare, 4);
    verdict(`${name}: ms of work without a turn of the event loop`, worked, 20);
  }
}
if (bodies) {
  const { at_once: many } = bodies;
  console.log('\nwhile one body of 27 MB is served:');
  for (const { name, status, longest_ms: longest, worked_ms: worked } of bodies.bodies)
    verdict(
      `ms of work without a turn of the event loop, ${name} (${status}; ${longest.toFixed(0)} ms by the clock)`,
      worked,
      50,
    );
  console.log(
    `\n${many.requests} of them at once: ${many.answered} answered, ${many.refused} refused with 503:`,
  );
  verdict(
    `ms of work without a turn of the event loop (${many.longest_ms.toFixed(0)} ms by the clock)`,
    many.worked_ms,
    50,
  );
  verdict('MiB of memory at most', many.peak_mib, 1024);
}
if (plugins) {
  console.log(
    `\nplugins of third parties: ${plugins.hook_ns.toFixed(0)} ns CPU per call of a hook (${plugins.built_in_ns.toFixed(0)} for a built-in one)`,
  );
  verdict('µs until a hook in a thread of its own has ended, median', plugins.isolated_us, 100);
  console.log(`     99 of 100 within ${plugins.isolated_p99_us.toFixed(0)} µs`);
  verdict(
    'µs until a check of a request in such a thread has judged, median',
    plugins.isolated_check_us,
    100,
  );
  console.log(`     99 of 100 within ${plugins.isolated_check_p99_us.toFixed(0)} µs`);
  verdict('µs until a check of an answer has, median', plugins.isolated_answer_check_us, 100);
}
if (mcp) {
  console.log(
    `\na call of an MCP tool, saturated: bare ${mcp.bare_us.toFixed(1)} µs CPU, weir ${mcp.weir_us.toFixed(1)}:`,
  );
  verdict(`CPU per tool call, weir / bare${between(mcp.spread)}`, mcp.ratio, 1.6);
  verdict(
    `KiB resident per idle session, of ${mcp.sessions} (${kibibytes(mcp.listening_session_bytes)} with an open stream)`,
    mcp.session_bytes / 1024,
    20,
  );
  verdict(`ms for the list of ${mcp.listed_tools} tools on /mcp`, mcp.list_ms, 1);
}
if (limits) {
  console.log('\na request that is counted in five windows and two budgets, admitted and settled:');
  verdict('µs CPU in memory', limits.memory_us, 3);
  if (limits.redis) {
    verdict('µs CPU of the gateway with Redis', limits.redis.cpu_us, 25);
    console.log(
      `     µs CPU of two scripts that only keep the server as busy: ${limits.redis.two_scripts_us.toFixed(1)}; µs of the Redis server for those of the limits: ${limits.redis.server_us.toFixed(0)}`,
    );
    verdict('calls to Redis per admission', limits.redis.calls_per_admission, 1);
    verdict('calls to Redis per settlement', limits.redis.calls_per_settlement, 1);
  } else console.log(`none ${limits.redis_missing}: limits on Redis are not measured`);
  console.log(`\n${limits.budgets} budgets in memory:`);
  verdict(
    `bytes per budget (${limits.bytes_with_names.toFixed(0)} with its name, limit and subject, which a key holds)`,
    limits.bytes_per_budget,
    300,
  );
  verdict('CPU of an admission among them / among ten', limits.ratio_among_many, 1.2);
}
if (memory) {
  console.log(
    `\n${memory.minutes} minutes of ${memory.requests} requests and ${memory.writes} administrative writes:`,
  );
  verdict('requests and writes that failed', memory.failures, 0);
  for (const [name, grown] of Object.entries(memory.growth))
    verdict(`MiB more a minute, process of ${name}`, grown, 0.5);
  const { gateway, resources, analytics } = memory.held;
  verdict('MiB of all processes', gateway + resources + analytics, 1536);
}
if (values.json !== undefined) await writeFile(values.json, `${JSON.stringify(result, null, 2)}\n`);

function kibibytes(bytes: number): string {
  return `${(bytes / 1024).toFixed(1)} KiB`;
}

/** Of the rounds' own ratios. */
function between(spread: readonly [number, number] | undefined): string {
  const [lower, upper] = spread ?? [NaN, NaN];
  return `, half of the rounds from ${lower.toFixed(2)} to ${upper.toFixed(2)}`;
}

/** Standard error of a difference. */
function plusMinus({ added_error_us: error }: { readonly added_error_us: number }): string {
  return ` (± ${error.toFixed(1)})`;
}

function verdict(name: string, value: number, bound: number): void {
  console.log(
    `${value <= bound ? 'ok  ' : 'OVER'} ${name}: ${value.toFixed(3).replace(/\.?0+$/, '')} (bound ${bound})`,
  );
}
