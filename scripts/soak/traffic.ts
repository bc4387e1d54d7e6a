/** Mixed traffic of the soak: what is sent, how its answers are read, and what was accepted of each kind. */
import http, { type IncomingMessage } from 'node:http';
import { text as textOf } from 'node:stream/consumers';
import { ConfigWrites, firstWorkspace } from '../bench/config-writes.ts';
import { question } from '../../main/bench-command/load.ts';
import { benchKey } from '../bench/workload.ts';

/** One kind of request. */
interface Kind {
  readonly name: string;
  /** Of all requests, this many in a round. */
  readonly share: number;
  readonly path: string;
  /** The body of the n-th one. */
  body(n: number): object;
  readonly headers?: Readonly<Record<string, string>>;
  /** The client leaves after the first bytes of the answer. */
  readonly leaves?: true;
  /** Statuses that are right. */
  readonly statuses: readonly number[];
}

const provider = { 'x-service-provider': 'bench' };
const streamed = { ...question, stream: true, stream_options: { include_usage: true } };
const guarded = {
  provider: '@bench',
  input_guardrails: [{ 'default.contains': { words: ['forbidden'], operator: 'none' }, deny: true }],
};
const [system, user] = question.messages;

/** Requests of the key that has a limit. */
const limitedKind = 'limited';

/** Every kind. */
const kinds: readonly Kind[] = [
  {
    name: 'json',
    share: 6,
    path: '/v1/chat/completions',
    headers: provider,
    body: (n) => ({ ...question, user: `u${n}` }),
    statuses: [200],
  },
  {
    name: 'cached',
    share: 3,
    path: '/v1/chat/completions',
    headers: provider,
    body: () => question,
    statuses: [200],
  },
  {
    name: 'stream',
    share: 2,
    path: '/v1/chat/completions',
    headers: provider,
    body: (n) => ({ ...streamed, user: `u${n}` }),
    statuses: [200],
  },
  {
    name: 'messages',
    share: 2,
    path: '/v1/messages',
    headers: provider,
    body: (n) => ({
      model: question.model,
      system: system?.content,
      messages: [user],
      max_tokens: 200,
      stream: n % 2 === 0,
      metadata: { user_id: `u${n}` },
    }),
    statuses: [200],
  },
  {
    name: 'responses',
    share: 2,
    path: '/v1/responses',
    headers: provider,
    body: (n) => ({
      model: question.model,
      instructions: system?.content,
      input: `${user?.content} ${n}`,
      store: false,
      stream: n % 2 === 0,
    }),
    statuses: [200],
  },
  {
    name: 'abort',
    share: 2,
    path: '/v1/chat/completions',
    headers: provider,
    body: (n) => ({ ...streamed, user: `a${n}` }),
    leaves: true,
    statuses: [200],
  },
  {
    name: 'guardrail',
    share: 1,
    path: '/v1/chat/completions',
    headers: { 'x-service-config': JSON.stringify(guarded) },
    body: (n) => ({ ...question, messages: [{ role: 'user', content: `This is forbidden: ${n}` }] }),
    statuses: [446],
  },
  {
    name: limitedKind,
    share: 2,
    path: '/v1/chat/completions',
    headers: provider,
    body: (n) => ({ ...question, user: `l${n}` }),
    statuses: [200, 429],
  },
  {
    name: 'refused',
    share: 1,
    path: '/v1/chat/completions',
    headers: { ...provider, 'x-service-api-key': 'wk_nobody_0123456789abcdef' },
    body: () => question,
    statuses: [401],
  },
];

/** What came of the requests of one kind. */
interface Tally {
  readonly name: string;
  /** The head of the answer has come. */
  accepted: number;
  /** Sum of their numbers: the same rows, not just as many. */
  numbers: number;
  readonly statuses: Map<number, number>;
}

const maxInFlight = 64;
const answerMs = 60_000;
/** One administrative write a second, and one change of the configuration in this time. */
const writeEveryMs = 1000;

/** How much is sent. */
interface TrafficOptions {
  readonly port: number;
  readonly perSecond: number;
  /** Changes the configuration. */
  reload(): Promise<void>;
  readonly reloadEveryMs: number;
}

/** Traffic at a rate until it is stopped. */
export class Traffic {
  readonly tallies: readonly Tally[] = kinds.map(({ name }) => ({
    ...{ name, accepted: 0, numbers: 0 },
    statuses: new Map<number, number>(),
  }));
  reloads = 0;
  failures = 0;
  firstFailure: string | undefined;
  readonly #options: TrafficOptions;
  readonly #agent = new http.Agent({ keepAlive: true, maxSockets: maxInFlight });
  readonly #writes: ConfigWrites;
  readonly #inFlight = new Set<Promise<void>>();
  readonly #order = kinds.flatMap((kind) => Array.from({ length: kind.share }, () => kind));
  #timers: NodeJS.Timeout[] = [];
  #sent = 0;
  #limitedKey = '';
  #isWriting = false;
  #isReloading = false;

  constructor(options: TrafficOptions) {
    this.#options = options;
    this.#writes = new ConfigWrites((method, path, body) => this.#operate(method, path, body));
  }

  get requests(): number {
    return this.tallies.reduce((sum, { accepted }) => sum + accepted, 0);
  }

  get writes(): number {
    return this.#writes.done;
  }

  /** Makes the key with a limit, and begins. */
  async start(): Promise<void> {
    this.#limitedKey = await this.#makeLimitedKey();
    const { perSecond, reloadEveryMs } = this.#options;
    this.#timers = [
      setInterval(() => {
        if (this.#inFlight.size < maxInFlight) this.#begin(() => this.#send());
      }, 1000 / perSecond),
      setInterval(() => {
        if (this.#isWriting) return;
        this.#isWriting = true;
        this.#begin(() => this.#writes.next().finally(() => (this.#isWriting = false)));
      }, writeEveryMs),
      setInterval(() => {
        if (this.#isReloading) return;
        this.#isReloading = true;
        this.#begin(async () => {
          await this.#options.reload().finally(() => (this.#isReloading = false));
          this.reloads += 1;
        });
      }, reloadEveryMs),
    ];
  }

  /** Starts nothing more, and resolves when everything has ended and every connection is closed. */
  async stop(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    await Promise.all(this.#inFlight);
    this.#agent.destroy();
  }

  #begin(work: () => Promise<void>): void {
    const running = work()
      .catch((error: unknown) => this.#failed(String(error)))
      .finally(() => this.#inFlight.delete(running));
    this.#inFlight.add(running);
  }

  #failed(what: string): void {
    this.failures += 1;
    this.firstFailure ??= what;
  }

  async #send(): Promise<void> {
    const n = this.#sent++;
    const kind = this.#order[n % this.#order.length] as Kind;
    const tally = this.tallies[kinds.indexOf(kind)] as Tally;
    const key = kind.name === limitedKind ? this.#limitedKey : benchKey;
    const headers = {
      'x-service-api-key': key,
      'x-service-trace-id': `soak-${kind.name}-${n}`,
      ...kind.headers,
    };
    const response = await this.#request('POST', kind.path, headers, kind.body(n));
    tally.accepted += 1;
    tally.numbers += n;
    const status = response.statusCode ?? 0;
    tally.statuses.set(status, (tally.statuses.get(status) ?? 0) + 1);
    if (kind.leaves === true) return leave(response);
    const text = await textOf(response);
    if (!kind.statuses.includes(status))
      this.#failed(`${kind.name} was answered ${status}: ${text.slice(0, 500)}`);
    else if (status === 200 && /"type":\s*"error"|^data: \{"error"/m.test(text))
      this.#failed(`${kind.name}: ${text.slice(-500)}`);
  }

  async #makeLimitedKey(): Promise<string> {
    const workspace = await firstWorkspace((...call) => this.#operate(...call));
    const made = await this.#operate('POST', '/v1/api-keys/workspace/service', {
      name: 'soak limited',
      scopes: ['completions.write'],
      workspace_id: workspace,
      rate_limits: [{ type: 'requests', unit: 'rpm', value: 120 }],
    });
    return (made as { readonly key: string }).key;
  }

  async #operate(method: string, path: string, body?: object): Promise<unknown> {
    const response = await this.#request(method, path, { 'x-service-api-key': benchKey }, body);
    const text = await textOf(response);
    if ((response.statusCode ?? 0) >= 300)
      throw new Error(`${method} ${path} answered ${response.statusCode}: ${text}`);
    return text === '' ? undefined : JSON.parse(text);
  }

  #request(
    method: string,
    path: string,
    headers: Readonly<Record<string, string>>,
    body?: object,
  ): Promise<IncomingMessage> {
    const bytes = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
    return new Promise((resolve, reject) => {
      const request = http.request({
        ...{
          host: '127.0.0.1',
          port: this.#options.port,
          agent: this.#agent,
          method,
          path,
          timeout: answerMs,
        },
        headers: {
          ...(bytes !== undefined && { 'content-type': 'application/json', 'content-length': bytes.length }),
          ...headers,
        },
      });
      request.once('response', resolve).once('error', reject);
      request.once('timeout', () =>
        request.destroy(new Error(`${method} ${path} was not answered in time.`)),
      );
      request.end(bytes);
    });
  }
}

/** Cuts the connection after the first bytes of the body. */
function leave(response: IncomingMessage): Promise<void> {
  return new Promise((resolve) => {
    response.on('error', () => undefined);
    response.once('close', resolve);
    response.once('data', () => response.destroy());
  });
}
