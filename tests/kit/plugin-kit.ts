/**
 * What plugin tests need: a scope and request contexts over real parts where the gateway has them (body, counters),
 * and the plainest stand-ins for the rest.
 */
import { RecordingMetrics } from '../../core/lifecycle/recording-services.test-support.ts';
import { roleOf } from '../../core/access/scopes.ts';
import { readFeatures } from '../../core/access/features.ts';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import { createHash, randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import type { Endpoint } from '../../core/dialects/endpoint.ts';
import type { RouteInput } from '../../core/pipeline/define-route.ts';
import { matchEndpoint } from '../../core/dialects/match-endpoint.ts';
import type {
  ContextKey,
  JsonObject,
  JsonValue,
  NamedModels,
  Outcome,
  RequestContext,
} from '../../core/pipeline/context.ts';
import { emptyFacts, type RequestFacts } from '../../core/pipeline/facts.ts';
import { callerKey } from '../../core/pipeline/keys.ts';
import { namedModels } from '../../core/pipeline/named-models.ts';
import type { AnyPlugin, Scope } from '../../core/pipeline/plugin.ts';
import { LazyBody } from '../../core/pipeline/request-body.ts';
import type { Analytics } from '../../core/ports/analytics.ts';
import { bodyNeed } from '../../core/pipeline/compile.ts';
import { loadBody } from '../../core/pipeline/call-hook.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import { headerValue, withoutHeader } from '../../core/ports/header-list.ts';
import type { Journal, JournalLine, JournalRoom, JournalTable } from '../../core/ports/journal.ts';
import type { Log } from '../../core/ports/log.ts';
import { dialects } from '../../adapters/dialects/index.ts';
import { createTokens } from '../../adapters/tokens/tokens.ts';
import { createMemoryCache } from '../../storage/memory/cache.ts';
import { createBudgets } from '../../storage/memory/budgets.ts';
import { createMemoryCounters } from '../../storage/memory/counters.ts';
import { createMemoryLimiter } from '../../storage/memory/limiter.ts';
import { createMemoryVectorIndex } from '../../storage/memory/vector-index.ts';
import { ConfiguredMcpServers } from '../../core/organisation/mcp-virtual-servers.ts';
import { withoutStore } from '../../core/organisation/without-store.ts';
import { noOauth } from './fake-mcp.ts';
import { testSecrets } from './test-secrets.ts';

/** The moment at which every test clock starts. */
export const testStart = Date.parse('2026-11-21T09:00:00.000Z');

/** A clock that stands still until it is told to move. */
export class TestClock implements Clock {
  private elapsed = 0;

  now(): number {
    return testStart + this.elapsed;
  }

  monotonic(): number {
    return 1000 + this.elapsed;
  }

  after(): () => void {
    return () => undefined;
  }

  advance(ms: number): void {
    this.elapsed += ms;
  }
}

/** A journal that keeps its lines, and can be told how many of them have not been stored yet. */
export class TestJournal implements Journal {
  readonly lines: Record<JournalTable, string[]> = { requests: [], bodies: [], feedback: [] };
  pending: Record<JournalTable, number> = { requests: 0, bodies: 0, feedback: 0 };
  readonly lastError = undefined;
  readonly settled: number[] = [];
  /** Whose every line is, in the order in which they came. */
  readonly owners: string[] = [];

  append(table: JournalTable, line: JournalLine, owner = ''): void {
    this.owners.push(owner);
    const parts = typeof line === 'string' ? [line] : line;
    this.lines[table].push(parts.map((part) => Buffer.from(part).toString()).join(''));
  }

  settle(timeoutMs: number): Promise<boolean> {
    this.settled.push(timeoutMs);
    return Promise.resolve(true);
  }

  state(table: JournalTable) {
    const accepted = this.lines[table].length + this.pending[table];
    return { accepted, stored: accepted - this.pending[table], pending: this.pending[table], shed: 0 };
  }

  shedBy() {
    return { share: 0, bodies: 0, disk: 0, memory: 0, length: 0, closed: 0, refused: 0, age: 0, lost: 0 };
  }

  room(): JournalRoom {
    return { policy: 'shed', maxBytes: 0, bytes: 0, waiting: 0, waited: 0, refused: 0 };
  }

  admit(): Promise<void> | undefined {
    return undefined;
  }

  flush = (): Promise<void> => Promise.resolve();
  close = (): Promise<void> => Promise.resolve();

  /** The rows of a table, parsed. */
  rows<T>(table: JournalTable): T[] {
    return this.lines[table].map((line) => JSON.parse(line) as T);
  }
}

const silent: Log = { debug() {}, info() {}, warn() {}, error() {}, child: () => silent };

/** A key record; override what the test is about. */
export function testKey(overrides: Partial<KeyRecord> = {}): KeyRecord {
  return {
    id: 'key-1',
    name: 'first key',
    kind: 'workspace-service',
    organisationId: 'org-1',
    workspaceId: 'ws-1',
    userId: '',
    scopes: ['*'],
    expiresAt: null,
    ...overrides,
  };
}

/** SHA-256 in base64, as the directory knows keys. */
export function sha256(text: string): string {
  return createHash('sha256').update(text).digest('base64');
}

/** A store that answers nothing; override what the test is about. */
export function testAnalytics(overrides: Partial<Analytics> = {}): Analytics {
  return {
    insert: () => Promise.resolve(),
    storedIds: () => Promise.resolve(new Set()),
    costsByDay: () => Promise.resolve([]),
    countedUsage: () => Promise.resolve([]),
    repricing: () => Promise.reject(new Error('Tests of plugins change no prices.')),
    groups: () => Promise.resolve({ total: 0, rows: [] }),
    series: () => Promise.resolve({ totals: [], points: [] }),
    feedbackSeries: () => Promise.resolve({ totals: [], points: [] }),
    logs: () => Promise.resolve([]),
    countLogs: () => Promise.resolve(0),
    newLogs: () => Promise.resolve({ records: [], since: '', resume: '', left: undefined }),
    trace: () => Promise.resolve([]),
    traces: () => Promise.resolve({ total: 0, rows: [] }),
    requestById: () => Promise.resolve(undefined),
    feedback: () => Promise.resolve({ total: 0, rows: [] }),
    feedbackById: () => Promise.resolve(undefined),
    ping: () => Promise.resolve(),
    close: () => Promise.resolve(),
    ...overrides,
  };
}

/** A scope whose clock, journal and counters the test can reach. */
export function testScope(overrides: Partial<Scope> & { keys?: Readonly<Record<string, KeyRecord>> } = {}) {
  const { keys = {}, ...rest } = overrides;
  const clock = new TestClock();
  const journal = new TestJournal();
  const absent = (): never => {
    throw new Error('This part of the scope is not there in plugin tests.');
  };
  const counters = createMemoryCounters({ clock, log: silent });
  const budgets = createBudgets({ clock, log: silent });
  const scope: Scope = {
    log: silent,
    clock,
    counters,
    limiter: createMemoryLimiter({ counters, budgets }),
    budgets,
    cache: createMemoryCache({ clock, maxBytes: 1_000_000, maxValueBytes: 100_000 }),
    guardedFetch: { fetch: absent },
    metrics: new RecordingMetrics(),
    prices: { price: absent, parts: () => undefined, rates: absent },
    directory: {
      keyByHash: (hash) => Object.entries(keys).find(([secret]) => sha256(secret) === hash)?.[1],
      ...withoutStore,
      keyById: (id) => Object.values(keys).find((key) => key.id === id),
      defaultOrganisationId: 'default-org',
      defaultWorkspaceId: 'default-ws',
    },
    secrets: testSecrets,
    credentials: { create: absent },
    ownRequests: { send: absent },
    secretManagers: { refusal: () => undefined, value: absent },
    mcp: { describe: absent, greet: absent, upstream: absent, oauth: noOauth },
    journal,
    analytics: testAnalytics(),
    resources: undefined,
    configFile: undefined,
    exports: undefined,
    features: readFeatures({}),
    guards: { ids: [], issues: () => undefined, definition: () => undefined },
    dialects,
    router: {
      answer: absent,
      expectedPrice: () => undefined,
      missingConfig: absent,
      unusableGuardrail: absent,
      toolGuardrails: () => undefined,
      checkConfig: absent,
      explainConfig: absent,
      credentialFor: absent,
      storedPrices: () => undefined,
      providers: new Map(),
    },
    mcpServers: new ConfiguredMcpServers(),
    tokens: createTokens({ fetch: rest.guardedFetch ?? { fetch: absent }, clock, log: silent }),
    embeddings: { problem: absent, embed: absent },
    vectors: createMemoryVectorIndex({ clock }),
    headerPrefix: 'x-service',
    keyPrefix: 'wk_',
    basePath: '/v1',
    publicUrl: undefined,
    onDispose() {},
    setTimeout: absent,
    // Nothing runs by itself in these tests.
    setInterval: () => () => undefined,
    ...rest,
  };
  return { scope, clock, journal };
}

/** What a test says about its request. */
export interface TestRequest {
  readonly method?: string;
  readonly path?: string;
  readonly query?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** A value is sent as JSON, a string and bytes as they are. */
  readonly body?: unknown;
  readonly key?: KeyRecord;
}

/** A request as a plugin sees it, over the real body implementation. */
export class TestContext implements RequestContext {
  readonly id = randomUUID();
  readonly startedAt = testStart;
  readonly method: string;
  path: string;
  readonly query: string;
  headers: string[];
  readonly remoteAddress = '127.0.0.1';
  endpoint: Endpoint;
  readonly generation = 'generation-1';
  readonly body: LazyBody;
  readonly facts: RequestFacts = emptyFacts();
  readonly aborted = false;
  /** What the plugin added to the answer. */
  readonly responseHeaders: Record<string, string> = {};
  private readonly slots = new Map<ContextKey<unknown>, unknown>();

  constructor(request: TestRequest) {
    this.path = request.path ?? '/chat/completions';
    this.method = request.method ?? 'POST';
    this.query = request.query ?? '';
    this.endpoint = matchEndpoint(this.method, this.path);
    const defaults = request.body === undefined ? {} : { 'content-type': 'application/json' };
    this.headers = Object.entries({ ...defaults, ...request.headers }).flat();
    const bytes = bytesOf(request.body);
    this.body = new LazyBody(
      {
        hasBody: bytes.length > 0,
        header: (name) => this.header(name),
        readBody: () => Promise.resolve(bytes),
        streamBody: () => Readable.from([bytes]),
        hold: () => undefined,
        holdParsing: () => undefined,
        releaseParsing: () => undefined,
      },
      { maxBytes: 1_000_000, maxMembers: 200_000, maxDepth: 128 },
    );
    if (request.key) this.set(callerKey, request.key);
  }

  get originalPath(): string {
    return `/v1${this.path}`;
  }

  get json(): JsonValue | undefined {
    return this.body.json;
  }

  get models(): NamedModels {
    const { method, path, query, endpoint, body } = this;
    const dialect = dialects.get(endpoint.dialect) ?? {};
    return namedModels({
      method,
      path,
      query,
      endpoint,
      dialect,
      isUpgrade: false,
      body: body.present ? body : undefined,
      header: (name) => this.header(name),
    });
  }

  get conversation(): never {
    throw new Error('The conversation is not there in plugin tests.');
  }

  header(name: string): string | undefined {
    return headerValue(this.headers, name);
  }

  serviceNames(): readonly string[] {
    return [];
  }

  service(name: string): string | undefined {
    return this.header(`x-service-${name}`);
  }

  setHeader(name: string, value: string | undefined): void {
    const kept = withoutHeader(this.headers, name.toLowerCase());
    this.headers = value === undefined ? kept : [...kept, name, value];
  }

  get<T>(key: ContextKey<T>): T | undefined {
    return this.slots.get(key) as T | undefined;
  }

  set<T>(key: ContextKey<T>, value: T): void {
    this.slots.set(key, value);
  }

  addResponseHeader(name: string, value: string): void {
    this.responseHeaders[name] = value;
  }

  replaceResponseHeader(name: string, value: string | undefined): void {
    if (value === undefined) delete this.responseHeaders[name];
    else this.responseHeaders[name] = value;
  }

  become(path: string, body: JsonObject): void {
    this.path = path;
    this.endpoint = matchEndpoint(this.method, path);
    this.body.set([], body);
  }

  divert(): never {
    throw new Error('No answer leaves a context without a gateway.');
  }

  onAbort(): () => void {
    return () => undefined;
  }
}

/** The request as the pipeline hands it to a plugin: with the body in memory when the plugin declared that it reads it. */
export async function contextFor(plugin: AnyPlugin, request: TestRequest): Promise<TestContext> {
  const context = new TestContext(request);
  await loadBody(context, bodyNeed(plugin));
  return context;
}

/** What the handler of an administration route gets, where it needs no store; override what the test is about. */
export function testRouteInput(
  overrides: Partial<RouteInput<unknown, unknown, unknown>> = {},
): RouteInput<unknown, unknown, unknown> {
  const absent = (): never => {
    throw new Error('What is administered is not there in plugin tests.');
  };
  const key = overrides.key ?? testKey();
  return {
    params: {},
    query: {},
    body: {},
    key,
    context: new TestContext({}),
    role: roleOf(key, withoutStore),
    read: absent,
    write: absent,
    requireVersion: absent,
    sendVersion: absent,
    ...overrides,
  };
}

/** How the request ended; completed with 200 unless the test says otherwise. */
export function testOutcome(overrides: Partial<Outcome> = {}): Outcome {
  return {
    kind: 'completed',
    status: 200,
    error: undefined,
    latencyMs: 12.5,
    requestBody: undefined,
    responseBody: undefined,
    responseTruncated: false,
    requestIsJson: false,
    responseIsJson: false,
    responseContentType: 'application/json',
    responseContentEncoding: '',
    price: { cost: '0', status: 'none', version: '' },
    ...overrides,
  };
}

/** The faults of a plugin's options, as one text; empty when they are right. Compiles as strictly as the loader. */
export function optionErrors(plugin: AnyPlugin, options: unknown): string {
  const ajv = new Ajv2020({ allErrors: true, strict: true, allowUnionTypes: true, keywords: ['x-expected'] });
  formats.default(ajv);
  const validate = ajv.compile(plugin.schema ?? {});
  return validate(options)
    ? ''
    : (validate.errors ?? []).map((error) => `${error.instancePath} ${error.message}`).join('; ');
}

function bytesOf(body: unknown): Buffer {
  if (body === undefined) return Buffer.alloc(0);
  if (Buffer.isBuffer(body)) return body;
  return Buffer.from(typeof body === 'string' ? body : JSON.stringify(body), 'utf8');
}
