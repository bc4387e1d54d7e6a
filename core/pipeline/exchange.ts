import { namedModels } from './named-models.ts';
import type {
  AttemptBody,
  AttemptContext,
  AttemptView,
  ContextKey,
  JsonObject,
  JsonValue,
  NamedModels,
  RequestContext,
  ResponseContext,
  ResponseView,
} from './context.ts';
import { randomUUID } from 'node:crypto';
import { validateHeaderValue } from 'node:http';
import type { Conversation, Dialect } from '../dialects/dialect.ts';
import type { DialectName, Endpoint } from '../dialects/endpoint.ts';
import { matchEndpoint } from '../dialects/match-endpoint.ts';
import type { GatewayError } from '../errors/gateway-error.ts';
import type { AnswerHeaders, AnswerReceiver, Diversion } from './answer.ts';
import type { ClientAddresses } from '../connection/client-address.ts';
import type { RouteDefinition } from './define-route.ts';
import type { IncomingRequest, AnswerSink } from '../connection/request-and-answer.ts';
import type { ClientUpgrade } from '../connection/upgrade.ts';
import { type HeaderList, headerValue } from '../ports/header-list.ts';
import { type HeaderName, type HeaderNames, isHeaderName } from '../base/header-names.ts';
import type { LimitReservation } from '../ports/counters.ts';
import type { GuardrailSpecs } from '../ports/guardrails.ts';
import type { CompiledPipeline } from './compile.ts';
import type { DecisionTrace } from './decision-trace.ts';
import { emptyFacts, type RequestFacts } from './facts.ts';
import { matchedRoute } from './keys.ts';
import type { MayBeLarge } from './large-document.ts';
import { type BodyBounds, LazyBody } from './request-body.ts';

/** Where a request goes within the gateway, decided from its method and path alone. */
export interface Matched {
  readonly pipeline: CompiledPipeline;
  /** Path below the base path. */
  readonly path: string;
  readonly endpoint: Endpoint;
  /** Set for an administration route. */
  readonly route?: RouteDefinition;
  readonly params?: Readonly<Record<string, string>>;
}

/** Dependencies of an exchange, and its request. */
interface ExchangeSetup {
  readonly incoming: IncomingRequest;
  readonly sink: AnswerSink;
  /** Set for a request for WebSocket. */
  readonly upgrade?: ClientUpgrade | undefined;
  readonly matched: Matched;
  readonly dialect: Dialect;
  /** All of them, for a request that becomes another one. Default: its dialect stays. */
  readonly dialects?: ReadonlyMap<DialectName, Dialect>;
  readonly generation: string;
  readonly query: string;
  readonly bodyBounds: BodyBounds;
  readonly headerNames: HeaderNames;
  readonly answerHeaders: AnswerHeaders;
  readonly clientAddresses: ClientAddresses;
  /** Wall clock and monotonic time of acceptance. */
  readonly now: number;
  readonly monotonic: number;
}

/** Boolean headers of the gateway, by their names without the prefix. */
const flagHeaders: ReadonlySet<string> = new Set([
  'cache-force-refresh',
  'debug',
  'explain',
  'fetch-integrated-models',
  'strict-open-ai-compliance',
  'strict-openai-compliance',
]);

/** `true` or `false` in any letter case, or empty. */
function isFlag(value: string): boolean {
  return value === 'true' || value === 'false' || /^\s*(?:true|false)?\s*$/i.test(value);
}

/** One request on its way: the context that every hook sees, and the pipeline's own state beside it. */
export class Exchange implements RequestContext, ResponseContext, AttemptContext {
  readonly id = randomUUID();
  readonly startedAt: number;
  readonly startedMonotonic: number;
  readonly method: string;
  /** Replaced by the router, when it names the provider within the model, and when the request becomes another one. */
  path: string;
  readonly query: string;
  /** Replaced when the request becomes another one. */
  endpoint: Endpoint;
  readonly generation: string;
  readonly body: LazyBody;
  /** Replaced only by those of the attempt that won a race. */
  facts: RequestFacts;
  /** The body as the present attempt sends it, once a hook may change it. */
  sent: (AttemptBody & MayBeLarge) | undefined;
  readonly incoming: IncomingRequest;
  /** Replaced when the answer is diverted. */
  sink: AnswerSink;
  /** Set for a request for WebSocket. */
  readonly upgrade: ClientUpgrade | undefined;
  readonly pipeline: CompiledPipeline;
  readonly matched: Matched;
  /** Replaced when the request becomes another one. */
  dialect: Dialect;
  private readonly dialects: ReadonlyMap<DialectName, Dialect> | undefined;
  /** The classified names of `headers`, in their order. */
  headerNames: readonly HeaderName[];
  /** All header names of this gateway, with its prefixes. */
  readonly knownNames: HeaderNames;
  /** Headers that the gateway adds to every answer. */
  readonly answerHeaders: AnswerHeaders;
  private readonly clientAddresses: ClientAddresses;
  /** Places, among the prefixes, of the aliases that the request's own headers use; undefined when they use none. */
  aliasRanks: number[] | undefined;
  /** Headers that every answer gets, flat. */
  responseHeaders: string[] = [];
  aborted = false;
  /** `settled` hooks have been started. */
  settled = false;
  /** Why the connection was cut, when the gateway itself did it. */
  failure: GatewayError | undefined;
  /** The collected answer has been parsed as JSON. */
  answerIsJson = false;
  /** Settling waits for it: facts that are still being read from a compressed copy. */
  pendingFacts: Promise<void> | undefined;
  /** The present attempt's reservation at the limits of its target; settling replaces it with the actual usage. */
  reservation: LimitReservation | undefined;
  /** Notes why the request is served as it is; set when the request asks for it. */
  trace: DecisionTrace | undefined;
  /** Releases the resources that the ingress holds for this request; called once, after it has settled. */
  release: (() => void) | undefined;
  /** Those of the gateway's own headers that ask for guardrails; undefined for none. */
  guardrailHeaders: HeaderName[] | undefined;
  /** Guardrails that the request itself asks for; set when it is routed. */
  guardrails: GuardrailSpecs | undefined;
  /** The gateway's own headers of this request: few, and read many times. */
  private serviceHeaders: HeaderName[] = [];
  /** Keys and values in turn: a handful of slots is found faster by looking than by hashing. */
  private slots: unknown[] = [];
  private abortListeners: (() => void)[] | undefined;
  private decodedConversation: Conversation | undefined;
  private currentResponse: ResponseView | undefined;
  private currentAttempt: AttemptView | undefined;

  constructor(setup: ExchangeSetup) {
    const { incoming, matched } = setup;
    this.incoming = incoming;
    this.sink = setup.sink;
    this.upgrade = setup.upgrade;
    this.matched = matched;
    if (matched.route !== undefined) this.set(matchedRoute, matched.route);
    this.pipeline = matched.pipeline;
    this.path = matched.path;
    this.endpoint = matched.endpoint;
    this.dialect = setup.dialect;
    this.dialects = setup.dialects;
    this.generation = setup.generation;
    this.query = setup.query;
    this.headerNames = setup.headerNames.ofList(incoming.message.rawHeaders);
    this.knownNames = setup.headerNames;
    this.answerHeaders = setup.answerHeaders;
    this.clientAddresses = setup.clientAddresses;
    this.noteServiceHeaders();
    this.startedAt = setup.now;
    this.startedMonotonic = setup.monotonic;
    this.method = incoming.message.method ?? 'GET';
    this.body = new LazyBody(incoming, setup.bodyBounds);
    this.facts = emptyFacts();
  }

  get originalPath(): string {
    const url = this.incoming.message.url ?? '/';
    return this.query === '' ? url : url.slice(0, url.length - this.query.length);
  }

  get headers(): HeaderList {
    return this.incoming.message.rawHeaders;
  }

  get remoteAddress(): string {
    const peer = this.upgrade?.remoteAddress ?? this.incoming.message.socket.remoteAddress ?? '';
    return this.clientAddresses.of(peer, this.headers);
  }

  get json(): JsonValue | undefined {
    return this.body.json;
  }

  get models(): NamedModels {
    const { method, path, query, endpoint, dialect, upgrade, sent } = this;
    return namedModels({
      method,
      path,
      query,
      endpoint,
      dialect,
      isUpgrade: upgrade !== undefined,
      body: this.body.present ? (sent?.changed === true ? sent : this.body) : undefined,
      header: (name) => this.header(name),
    });
  }

  get conversation(): Conversation {
    // A change of the body makes the decoded texts stale; decoding again is rare and cheap beside a wrong verdict.
    if (this.decodedConversation === undefined || this.body.changed) {
      this.decodedConversation = this.dialect.decodeConversation(this.endpoint.id, this.body.json);
    }
    return this.decodedConversation;
  }

  get response(): ResponseView {
    if (!this.currentResponse) throw new Error('There is no answer yet: `response` is for response hooks.');
    return this.currentResponse;
  }

  set response(view: ResponseView) {
    this.currentResponse = view;
  }

  get attempt(): AttemptView {
    if (!this.currentAttempt) throw new Error('There is no attempt yet: `attempt` is for attempt hooks.');
    return this.currentAttempt;
  }

  set attempt(view: AttemptView) {
    this.currentAttempt = view;
  }

  /** The present or latest attempt, if hooks were shown one. */
  get latestAttempt(): AttemptView | undefined {
    return this.currentAttempt;
  }

  header(name: string): string | undefined {
    return this.incoming.header(name);
  }

  service(name: string): string | undefined {
    let preferred: HeaderName | undefined;
    for (const one of this.serviceHeaders) {
      if (one.service === name && (preferred === undefined || one.rank < preferred.rank)) preferred = one;
    }
    return preferred === undefined ? undefined : this.incoming.header(preferred.lower);
  }

  /** A boolean header with another value, by its name without the prefix. */
  wrongFlag(): string | undefined {
    for (const { service, lower } of this.serviceHeaders) {
      if (service === undefined || !flagHeaders.has(service)) continue;
      const value = this.incoming.header(lower);
      if (value !== undefined && !isFlag(value)) return service;
    }
    return undefined;
  }

  private noteServiceHeaders(): void {
    for (const name of this.headerNames) {
      if (name.service === undefined) continue;
      const { rank } = name;
      this.serviceHeaders.push(name);
      if (name.asksForGuardrails) (this.guardrailHeaders ??= []).push(name);
      if (rank !== 0 && this.aliasRanks?.includes(rank) !== true) (this.aliasRanks ??= []).push(rank);
    }
  }

  setHeader(name: string, value: string | undefined): void {
    if (this.currentAttempt !== undefined)
      throw new Error('The request is on its way: call `setHeader` in an `admit` or `request` hook.');
    if (!isHeaderName(name)) throw new TypeError(`"${name}" is no name of a header.`);
    const { hopByHop, ours } = this.knownNames.of(name);
    if (hopByHop || ours)
      throw new TypeError(`The gateway itself sets the header ${name} for each provider.`);
    if (value !== undefined) validateHeaderValue(name, value);
    this.incoming.setHeader(name, value);
    this.headerNames = this.knownNames.ofList(this.headers);
    this.serviceHeaders = [];
    this.guardrailHeaders = undefined;
    this.noteServiceHeaders();
  }

  get<T>(key: ContextKey<T>): T | undefined {
    const at = this.slots.indexOf(key);
    return at === -1 ? undefined : (this.slots[at + 1] as T);
  }

  set<T>(key: ContextKey<T>, value: T): void {
    const at = this.slots.indexOf(key);
    if (at === -1) this.slots.push(key, value);
    else this.slots[at + 1] = value;
  }

  addResponseHeader(name: string, value: string): void {
    this.responseHeaders.push(name, value);
  }

  serviceNames(): readonly string[] {
    return this.serviceHeaders.map(({ service }) => service as string);
  }

  become(path: string, body: JsonObject): void {
    this.path = path;
    this.endpoint = matchEndpoint(this.method, path);
    this.dialect = this.dialects?.get(this.endpoint.dialect) ?? this.dialect;
    this.body.set([], body);
    this.decodedConversation = undefined;
  }

  /** Replaces a header of the answer that each attempt sets again; undefined removes it. */
  replaceResponseHeader(name: string, value: string | undefined): void {
    const { responseHeaders } = this;
    for (let i = 0; i < responseHeaders.length; i += 2) {
      if (responseHeaders[i] === name) responseHeaders.splice(i, 2);
    }
    if (value !== undefined) responseHeaders.push(name, value);
  }

  divert(receiver: AnswerReceiver): Diversion {
    const { sink } = this;
    if (!this.aborted) {
      const headers = ['content-length', '0'];
      this.answerHeaders.append(this, headers);
      sink.head(202, headers);
      sink.end();
    }
    const diverted = new DivertedSink(receiver);
    this.sink = diverted;
    return { drained: () => diverted.drained(), abort: () => this.abort() };
  }

  onAbort(run: () => void): () => void {
    if (this.aborted) run();
    else (this.abortListeners ??= []).push(run);
    return () => {
      const at = this.abortListeners?.indexOf(run) ?? -1;
      if (at !== -1) this.abortListeners?.splice(at, 1);
    };
  }

  /** The client has left: runs every abort listener once. */
  abort(): void {
    if (this.aborted) return;
    this.aborted = true;
    const listeners = this.abortListeners ?? [];
    this.abortListeners = undefined;
    for (const run of listeners) run();
  }

  /**
   * The same request for one of several attempts that run at once: facts, values and changes of one stay its own until it
   * is `adopt`ed. Aborting it ends that attempt alone; it is aborted with the request.
   */
  fork(): Exchange {
    const fork = Object.create(this) as Exchange;
    fork.facts = { ...this.facts };
    fork.responseHeaders = [...this.responseHeaders];
    fork.slots = [...this.slots];
    fork.sent = undefined;
    fork.reservation = undefined;
    fork.currentAttempt = undefined;
    fork.path = this.path;
    fork.aborted = false;
    fork.abortListeners = undefined;
    this.onAbort(() => fork.abort());
    return fork;
  }

  /** Continues with the state of a fork. */
  adopt(fork: Exchange): void {
    this.facts = fork.facts;
    this.responseHeaders = fork.responseHeaders;
    this.slots = fork.slots;
    this.sent = fork.sent;
    this.reservation = fork.reservation;
    this.currentAttempt = fork.currentAttempt;
    this.path = fork.path;
    this.answerIsJson = fork.answerIsJson;
    this.pendingFacts = fork.pendingFacts;
  }
}

/** Sink of an answer that does not go to the client of its request, but to a receiver within the gateway. */
class DivertedSink implements AnswerSink {
  readonly #receiver: AnswerReceiver;
  #drain: (() => void) | undefined;
  #listeners: ((complete: boolean) => void)[] = [];
  #isComplete: boolean | undefined;
  headSent = false;
  ended = false;
  readonly stalled = false;
  readonly stallTimeoutMs = 0;

  constructor(receiver: AnswerReceiver) {
    this.#receiver = receiver;
  }

  onClose(run: (complete: boolean) => void): void {
    if (this.#isComplete === undefined) this.#listeners.push(run);
    else run(this.#isComplete);
  }

  head(status: number, headers: HeaderList): void {
    this.headSent = true;
    this.#receiver.head(status, headerValue(headers, 'content-type') ?? '');
  }

  switchedAway(): void {
    throw new Error('An answer that goes elsewhere cannot switch protocols.');
  }

  flushHead(): void {
    // The receiver has it.
  }

  write(chunk: Buffer): boolean {
    return this.#receiver.write(chunk);
  }

  onDrain(run: () => void): void {
    this.#drain = run;
  }

  /** There is room again. */
  drained(): void {
    this.#drain?.();
  }

  end(chunk?: Buffer): void {
    if (chunk !== undefined) this.#receiver.write(chunk);
    this.#receiver.end();
    this.#close(true);
  }

  cut(): void {
    this.#receiver.cut();
    this.#close(false);
  }

  #close(isComplete: boolean): void {
    if (this.ended) return;
    this.ended = true;
    this.#isComplete = isComplete;
    const listeners = this.#listeners;
    this.#listeners = [];
    for (const run of listeners) run(isComplete);
  }
}
