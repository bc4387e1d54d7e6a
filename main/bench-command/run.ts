// A part of the composition root: `weir bench`.
import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { version } from '../../core/administration/cli/arguments.ts';
import type { BenchCommand, BenchRun } from '../../core/administration/cli/bench-arguments.ts';
import { messageOf } from '../../core/errors/gateway-error.ts';
import { serveBare } from './bare.ts';
import { benchReport, type BenchResult } from './report.ts';
import { children } from './child.ts';
import { ask, post, question } from './load.ts';
import { FailedRequests, measureInTurns, type Plan, type Subject } from './measure.ts';
import { startPeers } from './peers.ts';
import { serveUpstream } from './upstream.ts';
import { type Document, isAlias, isMap, parseDocument } from 'yaml';
import { loadConfig, type LoadResult } from '../../core/config/load-config.ts';
import { formatProblem } from '../../core/config/problem.ts';

/** Dependencies of the command. */
interface BenchParts {
  readonly configFile: (named: string | undefined) => string;
  readonly print: (text: string) => void;
  readonly complain: (text: string) => void;
}

const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
const partStartMs = 60_000;
/** Embedded stores with new data, on a busy machine. */
const gatewayStartMs = 300_000;
const askMs = 30_000;
const firstRequests = 5;
const secondsOfRound = 2;
const mostRounds = 3;
/** Seconds of warm-up for each second of a measure. */
const warmingPerSecond = 4;
const mostWarmSeconds = 30;

/** Runs the command; the exit code, or undefined in a part, which serves until its parent goes. */
export async function runBenchCommand(command: BenchCommand, parts: BenchParts): Promise<number | undefined> {
  if (command.action === 'run') return runBench(command, parts);
  if (command.action === 'upstream') serveUpstream();
  else serveBare(command.upstreamPort);
  return undefined;
}

async function runBench(command: BenchRun, parts: BenchParts): Promise<number> {
  if ('Deno' in globalThis) {
    parts.complain('weir bench runs on Node: its parts are processes of this program. Start it with Node.');
    return 1;
  }
  const interruption = new AbortController();
  const interrupt = (): void => interruption.abort(new Error('The bench was interrupted.'));
  for (const signal of signals) process.on(signal, interrupt);
  const opened = new Opened();
  const ending = new Promise<never>((_, reject) => {
    interruption.signal.addEventListener('abort', () => reject(interruption.signal.reason as Error));
  });
  const work = bench(command, { ...parts, own: (end) => opened.own(end), signal: interruption.signal });
  try {
    await Promise.race([work, ending]);
    return 0;
  } catch (error) {
    parts.complain(messageOf(error));
    return interruption.signal.aborted ? 130 : 1;
  } finally {
    await opened.end();
    interruption.abort();
    await work.catch(() => undefined);
    ending.catch(() => undefined);
    for (const signal of signals) process.off(signal, interrupt);
  }
}

/** Processes and files of a run, which end with it. */
class Opened {
  readonly #ends: (() => Promise<void>)[] = [];
  #isOver = false;

  /** Later ones end first; what comes after the end is ended at once. */
  own(end: () => Promise<void>): void {
    if (this.#isOver) void end();
    else this.#ends.push(end);
  }

  async end(): Promise<void> {
    this.#isOver = true;
    for (const end of this.#ends.reverse()) await end();
  }
}

interface Running extends BenchParts {
  readonly own: (end: () => Promise<void>) => void;
  readonly signal: AbortSignal;
}

async function bench(command: BenchRun, running: Running): Promise<void> {
  const { own, signal, print, complain } = running;
  const loadAverage = os.loadavg()[0] ?? 0;
  if (command.out !== undefined) await mkdir(command.out, { recursive: true });
  const folder = await mkdtemp(path.join(os.tmpdir(), 'weir-bench-'));
  own(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));

  const upstream = await startPart(running, ['--part', 'upstream'], 'The stand-in provider');
  const url = `http://127.0.0.1:${upstream.port}/v1`;
  const original = running.configFile(command.config);
  const config = await copyConfig(original, { ...command, url });
  own(() => config.remove());
  signal.throwIfAborted();
  complain(
    `Measuring ${path.relative('', original)} on this machine; Ctrl-C ends everything that is started.`,
  );
  const bare = await startPart(
    running,
    ['--part', 'bare', '--upstream', String(upstream.port)],
    'The bare proxy',
  );
  const weir = await startGateway(command, config, path.join(folder, 'data'), running);
  const forwarded = async (): Promise<number> =>
    Number(await (await fetch(`http://127.0.0.1:${upstream.port}/requests`)).text());
  await verify(weir, forwarded, config);
  const peers = await startPeers({
    ...{ folder, upstream: url, signal, own, tell: complain, wanted: command.peers },
    questionOf: ({ port, headers, model }) => chatRequest(port, headers, false, model),
  });

  const plan = planOf(command);
  const subjects: readonly Subject[] = [
    subject('bare', bare, []),
    weir,
    ...peers.started.map(({ name, port, child, headers, model }) =>
      subject(name, { port, pid: child.pid }, headers, model),
    ),
  ];
  const { measures, failures, streamFailures } = await measureInTurns(subjects, {
    ...{ plan, signal, forwarded, tell: complain },
    isEssential: ({ name }) => name === 'bare' || name === 'weir',
  }).catch((error: unknown) => {
    throw error instanceof FailedRequests ? refused(error.message, error.first, config) : error;
  });
  const ofBare = measures.get('bare');
  const ofWeir = measures.get('weir');
  if (ofBare === undefined || ofWeir === undefined) throw new Error('There are no figures.');

  const result: BenchResult = {
    version: 1,
    date: new Date().toISOString(),
    command: shownCommand(process.argv.slice(2)),
    machine: {
      cpu: os.cpus()[0]?.model.trim() ?? 'unknown',
      cores: os.cpus().length,
      memory_gib: Math.round(os.totalmem() / 2 ** 30),
      platform: `${os.platform()} ${os.release()}`,
      load_average: Number(loadAverage.toFixed(1)),
    },
    runtime: `Node ${process.version}`,
    weir: version,
    settings: {
      requests_per_second: plan.rate,
      connections: plan.connections,
      rounds: plan.rounds,
      seconds_per_round: plan.seconds,
    },
    gateways: [
      benchReport.gatewayResult({ name: 'bare', title: 'bare proxy' }, ofBare, ofBare),
      benchReport.gatewayResult({ name: 'weir', title: 'Weir' }, ofWeir, ofBare),
      ...peers.started.flatMap(({ name, title, version: of }) => {
        const own = measures.get(name);
        const named = { name, title, ...(of !== undefined && { version: of }) };
        return own === undefined ? [] : [benchReport.gatewayResult(named, own, ofBare)];
      }),
    ],
    not_measured: [
      ...peers.absent.map(({ title, reason }) => ({ title, reason })),
      ...peers.started.flatMap(({ name, title }) => {
        const reason = failures.get(name);
        return reason === undefined ? [] : [{ title, reason: `starts, but under load ${reason}` }];
      }),
    ],
    notes: [
      ...config.notes,
      ...notForwarded(ofWeir),
      ...peers.started.flatMap(({ name, title }) => {
        const reason = streamFailures.get(name);
        return reason === undefined ? [] : [`streams of ${title} left out: ${reason}`];
      }),
    ],
  };
  print(`\n${benchReport.terminalTable(result)}\n\n${benchReport.contextLines(result).join('\n')}`);
  if (command.out !== undefined) await writeResults(command.out, result, print);
}

function planOf({ seconds, rate, connections, streams }: BenchRun): Plan {
  const rounds = Math.min(mostRounds, Math.max(1, Math.floor(seconds / secondsOfRound)));
  const warmSeconds = Math.min(mostWarmSeconds, warmingPerSecond * seconds);
  return { warmSeconds, rounds, seconds: Number((seconds / rounds).toFixed(2)), rate, connections, streams };
}

/** Answers that did not come from the stand-in, as a cache gives them. */
function notForwarded({ asked, forwarded }: { asked: number; forwarded: number }): readonly string[] {
  const share = 1 - forwarded / asked;
  if (share < 0.01) return [];
  const percent = Math.round(share * 100);
  return [
    `${percent}% of the requests to Weir were answered without the provider, as a cache of the configuration does`,
  ];
}

interface Part {
  readonly port: number;
  readonly pid: number;
}

async function startPart({ own }: Running, args: readonly string[], name: string): Promise<Part> {
  const child = children.launchSelf(['bench', ...args], { asServer: false });
  own(() => child.stop());
  return { port: Number(await children.announced(child, /^port (\d+)/m, name, partStartMs)), pid: child.pid };
}

async function startGateway(
  command: BenchRun,
  config: BenchConfig,
  data: string,
  { own, complain }: Running,
): Promise<Subject> {
  complain('Starting the gateway …');
  const key = command.apiKey ?? `wk_bench_${randomBytes(18).toString('hex')}`;
  const child = children.launchSelf(
    ['start', '--config', config.file, '--port', '0', '--host', '127.0.0.1', '--data', data],
    {
      asServer: true,
      env: {
        WEIR_DRAIN_DELAY_MS: '0',
        // Spans of the bench belong to no collector.
        ...(command.keepStorage ? {} : { OTEL_SDK_DISABLED: 'true' }),
        ...(command.apiKey === undefined && { WEIR_ADMIN_KEY: key }),
      },
    },
  );
  own(() => child.stop());
  const port = Number(
    await children.announced(child, /listens on http:\/\/127\.0\.0\.1:(\d+)/, 'The gateway', gatewayStartMs),
  );
  const { headerPrefix, provider, basePath } = config;
  const names = new Set(command.headers.map((line) => line.slice(0, line.indexOf(':')).toLowerCase()));
  const headers = [
    `${headerPrefix}-api-key: ${key}`,
    `${headerPrefix}-provider: ${provider}`,
    'authorization: Bearer sk-bench',
  ].filter((line) => !names.has(line.slice(0, line.indexOf(':'))));
  return subject(
    'weir',
    { port, pid: child.pid },
    [...headers, ...command.headers],
    question.model,
    basePath,
  );
}

function subject(
  name: string,
  { port, pid }: Part,
  headers: readonly string[],
  model = question.model,
  basePath = '/v1',
): Subject {
  const bytes = (stream: boolean): Buffer => chatRequest(port, headers, stream, model, basePath);
  return { name, port, pid, question: bytes(false), streamed: bytes(true) };
}

function chatRequest(
  port: number,
  headers: readonly string[],
  stream: boolean,
  model: string,
  basePath = '/v1',
): Buffer {
  const body = {
    ...question,
    model,
    ...(stream && { stream, stream_options: { include_usage: true } }),
  };
  return post(port, `${basePath}/chat/completions`, headers, JSON.stringify(body));
}

/** The first requests to the gateway: they are answered, and by the stand-in, before many follow. */
async function verify(weir: Subject, forwarded: () => Promise<number>, config: BenchConfig): Promise<void> {
  for (let number = 0; number <= firstRequests; number++) {
    const before = await forwarded();
    const answer = await ask(weir.port, number === 0 ? weir.streamed : weir.question, askMs);
    if (!/^HTTP\/1\.1 200/.test(answer)) throw refused('The configuration refuses the bench', answer, config);
    const isCached = /^[\w-]*cache-status: (?:semantic )?hit/im.test(answer);
    if ((await forwarded()) === before && !isCached)
      throw new Error(
        `A request of the bench was answered, but not by its stand-in provider: the configuration routes it elsewhere. No more was sent. Give each provider that it may go to as --provider SLUG, or route requests with "${config.headerPrefix}-provider: ${config.provider}" to that provider.`,
      );
  }
}

const remedies: readonly (readonly [status: RegExp, remedy: string])[] = [
  [/^40[13]$/, 'give --api-key a key that may send requests to providers (completions.write)'],
  [
    /^404$/,
    'add a pipeline that matches POST /v1/chat/completions, or give the headers that yours asks for with --header',
  ],
  [/^(?:402|412|429)$/, 'measure a copy of the configuration with a higher rate limit or budget'],
  [/^(?:413|414|431)$/, 'measure a copy of the configuration with higher limits of sizes'],
  [/^446$/, 'measure a copy of the configuration without the guardrail that denies this question'],
  [/^5/, 'look at the message, and at the providers and hosts that the configuration allows'],
];

/** An error with the status, code and message of a refusal, and the remedy. `answer`: from its first byte. */
function refused(what: string, answer: string, config: BenchConfig): Error {
  const status = /^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1];
  if (status === undefined) return new Error(`${what}: ${answer}.`);
  const { code, message } = errorOf(answer);
  const remedy =
    remedies.find(([pattern]) => pattern.test(status))?.[1] ??
    'measure a copy of the configuration that answers this chat question';
  return new Error(
    `${what}: status ${status}${code === '' ? '' : `, code ${code}`}${message === '' ? '' : `, "${message}"`}. The request went to provider "${config.provider}". To measure it, ${remedy}.`,
  );
}

function errorOf(answer: string): { readonly code: string; readonly message: string } {
  const body = answer.slice(answer.indexOf('\r\n\r\n'));
  try {
    const parsed: unknown = JSON.parse(body.slice(body.indexOf('{'), body.lastIndexOf('}') + 1));
    const { error } = parsed as { readonly error?: { readonly code?: unknown; readonly message?: unknown } };
    const text = (value: unknown): string => (typeof value === 'string' ? value.slice(0, 500) : '');
    return { code: text(error?.code), message: text(error?.message) };
  } catch {
    return { code: '', message: '' };
  }
}

/** The command line, without what may be secret. */
function shownCommand(args: readonly string[]): string {
  const secret = /^--(?:api-key|header)$/;
  const words = args.map((word, index) => {
    if (secret.test(args[index - 1] ?? '')) return '…';
    const [, name] = /^(--(?:api-key|header)=)/.exec(word) ?? [];
    if (name !== undefined) return `${name}…`;
    return /^[\w./:,=@-]+$/.test(word) ? word : `'${word}'`;
  });
  return ['weir', ...words].join(' ');
}

async function writeResults(out: string, result: BenchResult, print: (text: string) => void): Promise<void> {
  const files = {
    'bench.json': `${JSON.stringify(result, null, 2)}\n`,
    'bench.svg': benchReport.chart(result),
    'bench.md': benchReport.markdown(result),
  };
  for (const [name, text] of Object.entries(files)) await writeFile(path.join(out, name), text);
  print(`\n${Object.keys(files).join(', ')} are in ${out}.`);
}

/** The provider that the copy has in addition. */
const standIn = 'weir-bench';
/** Stores within the gateway, which are new for a new data folder. */
const embedded = /^(pglite|chdb|memory|file|none):$/;
const storeNames = ['resources', 'analytics', 'counters', 'cache', 'jobs'] as const;

/** A copy of the operator's configuration, whose provider is the stand-in. */
interface BenchConfig {
  readonly file: string;
  /** Provider that the requests name. */
  readonly provider: string;
  readonly headerPrefix: string;
  readonly basePath: string;
  /** What the copy has not, for the operator. */
  readonly notes: readonly string[];
  remove(): Promise<void>;
}

interface CopyOptions {
  /** Address of the stand-in. */
  readonly url: string;
  /** Providers of the configuration that get this address. */
  readonly providers: readonly string[];
  readonly keepStorage: boolean;
}

/**
 * Writes the copy beside the original, where relative names of plugins and files hold. Rejects, with nothing left
 * behind, when the configuration is invalid or cannot be copied.
 */
async function copyConfig(original: string, options: CopyOptions): Promise<BenchConfig> {
  const { config, source } = await loaded(original);
  const notes: string[] = [];
  const document = parseDocument(await readFile(original, 'utf8'));
  const { url, providers, keepStorage } = options;
  setProvider(document, standIn, { dialect: 'openai-chat', base_url: url, service: 'openai' });
  for (const slug of providers) {
    if (!Object.hasOwn(config.providers, slug))
      notes.push(`providers.${slug} is not in the file: it is added`);
    setProvider(document, slug, { base_url: url });
  }
  if (!keepStorage) {
    const left: string[] = [];
    for (const name of storeNames) {
      const store = config.storage[name];
      if (store?.url === undefined || embedded.test(store.url)) continue;
      left.push(`storage.${name}`);
      leaveOut(document, ['storage', name], source, original);
    }
    if (document.hasIn(['telemetry', 'otlp'])) {
      left.push('telemetry.otlp');
      leaveOut(document, ['telemetry', 'otlp'], source, original);
    }
    if (left.length > 0)
      notes.push(
        `${left.join(', ')} of the configuration left out, so that no row of the bench gets there: embedded stores in a temporary folder instead (--keep-storage keeps them)`,
      );
  }
  const file = path.join(path.dirname(original), `.weir-bench-${process.pid}.${path.basename(original)}`);
  const remove = (): Promise<void> => rm(file, { force: true });
  try {
    await writeFile(file, document.toString({ lineWidth: 0 }), { mode: 0o600, flag: 'wx' });
    const copied = await loaded(file);
    const { header_prefix: headerPrefix, base_path: basePath } = copied.config.server;
    return { file, provider: providers[0] ?? standIn, headerPrefix, basePath, notes, remove };
  } catch (error) {
    await remove();
    if (!(error instanceof Error && 'code' in error)) throw error;
    throw new Error(
      `The copy of ${path.basename(original)} cannot be written beside it: ${messageOf(error)}. Copy the configuration, with its plugins, to a folder where you may write.`,
      { cause: error },
    );
  }
}

type Valid = Extract<LoadResult, { ok: true }>;

async function loaded(file: string): Promise<Valid> {
  const result = await loadConfig(file, { env: process.env });
  if (!result.ok) throw new Error(result.problems.map(formatProblem).join('\n'));
  return result;
}

function setProvider(document: Document, slug: string, members: Readonly<Record<string, string>>): void {
  const present = document.get('providers', true);
  const map = isAlias(present) ? present.resolve(document) : present;
  if (!isMap(map)) document.set('providers', document.createNode({ [slug]: members }));
  else if (!isMap(map.get(slug, true))) map.set(document.createNode(slug), document.createNode(members));
  else {
    // The other spelling of the same key would be a second value.
    map.deleteIn([slug, 'baseUrl']);
    for (const [name, value] of Object.entries(members)) map.setIn([slug, name], value);
  }
}

function leaveOut(
  document: Document,
  keys: readonly string[],
  source: Valid['source'],
  original: string,
): void {
  const file = source.fileOf(`/${keys.join('/')}`);
  if (file !== original)
    throw new Error(
      `${keys.join('.')} is in ${file}, which the configuration includes, and the bench changes a copy of ${path.basename(original)} alone. Give --keep-storage to use that store, which then gets the rows of the bench.`,
    );
  document.deleteIn(keys);
}
