// The gateway that `weir-gateway/testing` starts, and that `weir plugin test` and `weir plugin docs` inspect.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createMockTransport } from '../../adapters/mock/transport.ts';
import { createLog } from '../../adapters/telemetry/line-log.ts';
import { createMetrics } from '../../adapters/telemetry/prometheus.ts';
import { readFeatures } from '../../core/access/features.ts';
import { loadConfig } from '../../core/config/load-config.ts';
import { formatProblem, type Problem } from '../../core/config/problem.ts';
import { startServer } from '../../core/http/server.ts';
import { UndoStack } from '../../core/lifecycle/undo-stack.ts';
import { systemClock as clock } from '../../core/ports/clock.ts';
import type { PluginInstance } from '../../core/pipeline/call-hook.ts';
import type { Journal } from '../../core/ports/journal.ts';
import { privateFolders } from '../../storage/embedded/own-folder.ts';
import { openIdentity } from '../../storage/identity/open-identity.ts';
import { assembleGateway } from '../assemble.ts';
import { openSecrets } from '../open-secret-box.ts';
import { openStores } from '../open-stores.ts';
import {
  type Asking,
  type GatewayOptions,
  type LogRow,
  type ProviderAnswer,
  type Reply,
  type TestGateway,
  wires,
} from './contract.ts';
import { ScriptedProvider } from './scripted-provider.ts';
import { hear, speaking } from './wires.ts';

const key = 'wk_testing_0123456789abcdef';
const away = 'redis://127.0.0.1:1';
const rowWaitMs = 5000;
const homePrefix = 'weir-testing-home-';

/** A gateway, and the plugin in it. */
interface InspectedGateway {
  readonly gateway: TestGateway;
  /** As it is created now. */
  plugin(): PluginInstance;
}

/** Starts a gateway. Rejects with everything that is wrong with the plugin or its options. */
export async function inspectGateway(options: GatewayOptions): Promise<InspectedGateway> {
  const home = await mkdtemp(path.join(tmpdir(), homePrefix));
  const lines: string[] = [];
  const log = createLog({
    level: 'info',
    format: 'text',
    write: (line) => void lines.push(line.trimEnd()),
    clock,
  });
  const opened = new UndoStack({
    clock,
    timeoutMs: 20_000,
    onError: (error) => log.error('A part could not be closed', { error }),
  });
  opened.push(() => rm(home, { recursive: true, force: true, maxRetries: 5 }));
  try {
    const inspected = await open(options, { home, lines, log, opened });
    options.t?.after(() => inspected.gateway.close());
    return inspected;
  } catch (error) {
    await opened.dispose();
    throw error;
  }
}

interface Place {
  readonly home: string;
  readonly lines: readonly string[];
  readonly log: ReturnType<typeof createLog>;
  readonly opened: UndoStack;
}

async function open(first: GatewayOptions, { home, lines, log, opened }: Place): Promise<InspectedGateway> {
  const file = path.join(home, 'gateway.config.yaml');
  const data = path.join(home, 'data');
  const environment = first.env ?? {};
  let options = first;
  // JSON is YAML.
  const write = (): Promise<void> => writeFile(file, JSON.stringify(configuration(options), null, 2));
  await write();
  const loaded = await loadConfig(file, { env: environment });
  if (!loaded.ok) throw new Error(sentences(loaded.problems));
  const { config, source } = loaded;
  const features = readFeatures(environment, config.retention);
  const metrics = createMetrics();
  await privateFolders.own(data);
  const keyPrefix = config.security.key_prefix;
  const identity = await openIdentity(data, { presetKey: key, ownerEmail: undefined, keyPrefix });
  const secrets = await openSecrets({ config, data, environment, log });
  const parts = { config, file, data, features, secrets, log, clock, metrics, opened };
  const { identity: owner, ...stores } = await openStores({ ...parts, source, identity });
  await owner.keyShown();
  const rows = new Map<string, readonly LogRow[]>();
  const provider = new ScriptedProvider(createMockTransport({ clock }));
  const { gateway, reloader, start } = assembleGateway({
    ...parts,
    environment,
    stores: { ...stores, journal: recording(stores.journal, rows) },
    inProcess: provider,
    watch: () => () => undefined,
  });
  const problems = await start();
  if (problems.length > 0) throw new Error(sentences(problems));
  const server = await startServer(gateway, config.server, 0);
  opened.push(async () => void (await server.close(0)));
  const url = `http://127.0.0.1:${server.port}`;
  const turns = new Turns();
  const testGateway: TestGateway = {
    url,
    key,
    log: lines,
    ask: (asking = {}) => {
      const answer = answerOf(asking.answer);
      return turns.take(JSON.stringify(answer), async () => {
        provider.answer = answer;
        return ask(asking, { url, provider, rows });
      });
    },
    fetch: (place, init = {}) => {
      const headers = new Headers(init.headers);
      if (!headers.has('x-service-api-key')) headers.set('x-service-api-key', key);
      return fetch(`${url}${place}`, { ...init, headers });
    },
    async metric(name, labels = {}) {
      const { text } = await metrics.render();
      return sumOf(text, name, labels);
    },
    async reload(change = {}) {
      options = { ...options, ...change };
      await write();
      const outcome = await reloader.reload('the test says so');
      if (outcome === 'failed') throw new Error(sentences(reloader.lastError?.problems ?? []));
    },
    close: () => opened.dispose(),
  };
  return {
    gateway: testGateway,
    plugin() {
      const found = reloader.current.instances.find((one) => !one.builtIn);
      if (found === undefined) throw new Error('The gateway has no plugin of its own file.');
      return found;
    },
  };
}

/** The whole configuration, as written to the file. */
function configuration({ plugin, options = {}, config = {}, stores = 'here' }: GatewayOptions): object {
  const file =
    typeof plugin === 'string' && !plugin.startsWith('file:') ? path.resolve(plugin) : fileURLToPath(plugin);
  const mine = { [file]: options };
  const providers = Object.fromEntries(
    wires.map((wire) => [
      `test-${wire}`,
      {
        dialect: speaking[wire].listener.dialect,
        base_url: ScriptedProvider.address(wire),
        credentials: 'none',
      },
    ]),
  );
  const { providers: others = {}, ...sections } = config;
  return {
    version: 1,
    storage: {
      resources: { url: 'none:' },
      analytics: { url: 'none:' },
      counters: { url: stores === 'away' ? away : 'memory:' },
    },
    security: { trusted_hosts: ['127.0.0.1'] },
    ...sections,
    providers: { ...providers, ...(others as object) },
    pipelines: [
      { name: 'administration', match: { routes: 'contributed' }, plugins: ['auth', 'management'] },
      {
        name: 'gateway',
        match: { path: '/**' },
        plugins: ['auth', mine, 'guardrails', { provider: { default: 'test-chat' } }, 'logger'],
      },
    ],
  };
}

/** Without places in the configuration's file: it is made here, so they are of no use to a test. */
function sentences(problems: readonly Problem[]): string {
  return problems
    .map((one) =>
      path.basename(path.dirname(one.file)).startsWith(homePrefix) ? one.message : formatProblem(one),
    )
    .join('\n');
}

/** A journal that also hands over the rows of requests, by their id. */
function recording(journal: Journal, rows: Map<string, readonly LogRow[]>): Journal {
  const append: Journal['append'] = (table, line, owner) => {
    journal.append(table, line, owner);
    if (table !== 'requests') return;
    const text = (typeof line === 'string' ? [line] : line)
      .map((part) => Buffer.from(part).toString())
      .join('');
    const row = JSON.parse(text) as { readonly id: string };
    rows.set(row.id, [...(rows.get(row.id) ?? []), row]);
  };
  return new Proxy(journal, {
    get(target, name): unknown {
      if (name === 'append') return append;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

function answerOf(answer: Asking['answer'] = 'It is a fine day.'): ProviderAnswer {
  if (typeof answer === 'string' || Array.isArray(answer)) return { text: answer };
  return answer as ProviderAnswer;
}

/** Runs requests with the same provider's answer concurrently, and the others one after the other. */
class Turns {
  #running: { readonly name: string; readonly works: Set<Promise<unknown>> } | undefined;

  async take<T>(name: string, work: () => Promise<T>): Promise<T> {
    while (this.#running !== undefined && this.#running.name !== name)
      await Promise.allSettled(this.#running.works);
    const running = (this.#running ??= { name, works: new Set() });
    const working = work();
    running.works.add(working);
    try {
      return await working;
    } finally {
      running.works.delete(working);
      if (running.works.size === 0) this.#running = undefined;
    }
  }
}

interface Asked {
  readonly url: string;
  readonly provider: ScriptedProvider;
  readonly rows: ReadonlyMap<string, readonly LogRow[]>;
}

async function ask(asking: Asking, { url, provider, rows }: Asked): Promise<Reply> {
  const { wire = 'chat', stream = false, prompt = 'Hello', provider: target = wire } = asking;
  const { listener, body, inPath } = speaking[wire];
  const model = 'test-model';
  const named = inPath ? {} : { model, ...(stream && { stream }) };
  const seen = provider.requests.length;
  const answer = await fetch(`${url}${listener.path(model, stream)}`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'x-service-api-key': key,
      'x-service-provider': `@test-${target}`,
      ...asking.headers,
    },
    body: JSON.stringify({ ...named, ...body(prompt), ...asking.body }),
  });
  const headers = Object.fromEntries(answer.headers);
  const received = await readAll(answer);
  const contentType = headers['content-type'] ?? '';
  const heard = hear(wire, { status: answer.status, contentType, body: received.bytes });
  if (received.broken) heard.problems.push('the connection broke before the end of the answer');
  return {
    status: answer.status,
    headers,
    bytes: received.bytes,
    json: contentType.startsWith('application/json') ? jsonOf(received.bytes) : undefined,
    text: heard.text,
    reasoning: heard.reasoning,
    calls: heard.calls.map(({ name, arguments: given }) => ({ name, arguments: given })),
    error: heard.error,
    problems: heard.problems,
    provider: provider.requests.slice(seen),
    row: await rowOf(rows, headers['x-service-request-id'] ?? ''),
  };
}

/** The bytes as far as they came. */
async function readAll(answer: Response): Promise<{ readonly bytes: Buffer; readonly broken: boolean }> {
  const chunks: Uint8Array[] = [];
  try {
    for await (const chunk of (answer.body ?? []) as AsyncIterable<Uint8Array>) chunks.push(chunk);
    return { bytes: Buffer.concat(chunks), broken: false };
  } catch {
    return { bytes: Buffer.concat(chunks), broken: true };
  }
}

function jsonOf(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'));
  } catch {
    return undefined;
  }
}

/** The row is written after the last byte. */
async function rowOf(rows: Asked['rows'], id: string): Promise<LogRow> {
  for (let waited = 0; waited < rowWaitMs; waited += 5) {
    const [row, ...more] = rows.get(id) ?? [];
    if (more.length > 0) throw new Error(`The request ${id} has left ${more.length + 1} rows in the log.`);
    if (row !== undefined) return row;
    await pause(5);
  }
  throw new Error(`The request ${id} has left no row in the log within ${rowWaitMs} ms.`);
}

/** Adds up the series of the text exposition. */
function sumOf(text: string, name: string, labels: Readonly<Record<string, string>>): number {
  let sum = 0;
  for (const line of text.split('\n')) {
    const [, found, shown = '', value] = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
    if (found !== name) continue;
    if (Object.entries(labels).every(([label, wanted]) => `,${shown}`.includes(`,${label}="${wanted}"`)))
      sum += Number(value);
  }
  return sum;
}
