import type { IncomingMessage, ServerResponse } from 'node:http';
import { type GatewayConfig, servicePrefixes } from '../config/schema.ts';
import type { Dialect } from '../dialects/dialect.ts';
import type { DialectName } from '../dialects/endpoint.ts';
import { hasDotSegment, matchEndpoint } from '../dialects/match-endpoint.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import { AnswerHeaders, clientStalled } from '../pipeline/answer.ts';
import { refuse, runExchange } from '../pipeline/run.ts';
import { deliverSafely, type EngineRuntime } from '../pipeline/settle.ts';
import { DecisionTrace } from '../pipeline/decision-trace.ts';
import { Exchange, type Matched } from '../pipeline/exchange.ts';
import type { Feature } from '../access/features.ts';
import { type CompiledPipeline, compilePipeline } from '../pipeline/compile.ts';
import { ownRequest } from '../pipeline/keys.ts';
import type { OwnRequest, OwnRequests } from '../ports/own-requests.ts';
import { localMessage, LocalResponse } from '../connection/local-request.ts';
import type { BodyBounds } from '../pipeline/request-body.ts';
import type { Clock } from '../ports/clock.ts';
import { HeaderNames } from '../base/header-names.ts';
import { atTurnEnd } from '../base/turns.ts';
import { ClientAddresses } from '../connection/client-address.ts';
import { type Administration, handleRoute } from './handle-route.ts';
import {
  type BodyLimits,
  BufferBudget,
  IncomingRequest,
  ResponseSink,
} from '../connection/request-and-answer.ts';
import type { RouteTable } from './route-table.ts';
import type { CanaryGate } from './canary-gate.ts';
import { readTraceHeaders } from '../pipeline/facts.ts';
import { type ClientUpgrade, readUpgradeProtocols } from '../connection/upgrade.ts';

/** The serving generation, reduced to the members that the ingress needs. */
interface ServingGeneration {
  readonly hash: string;
  readonly compiled: { readonly routes: RouteTable };
  acquire(): void;
  release(): void;
  /** Tells its plugins that no new request will come. */
  retiring?(): void;
}

interface GatewaySetup {
  readonly server: GatewayConfig['server'];
  readonly dialects: ReadonlyMap<DialectName, Dialect>;
  readonly runtime: EngineRuntime;
  readonly clock: Clock;
  readonly administration: Administration;
  /** The generation for the next request. */
  current(): ServingGeneration;
  /** A second generation that gets some of the requests. Absent: there is never one. */
  readonly canary?: CanaryGate<ServingGeneration> | undefined;
  /** Answers the reserved operational paths. */
  operations(path: string, request: IncomingMessage, response: ServerResponse): boolean;
  /**
   * Answers requests for contributed routes in another process; resolves when the answer has ended, and never rejects.
   * Undefined: this gateway answers them.
   */
  readonly elsewhere?:
    | ((request: IncomingMessage, response: ServerResponse, expectsContinue: boolean) => Promise<void>)
    | undefined;
}

/** Path and arrival time of a request. */
interface Arrival {
  readonly path: string;
  readonly query: string;
  readonly now: number;
  readonly monotonic: number;
  /** The gateway itself sends it. */
  readonly own?: Pick<OwnRequest, 'caller'>;
}

/** Pipeline of requests that match no other one, so that they are refused and counted like any request. */
const nowhere = compilePipeline({ name: 'none', match: {}, plugins: [] }, []);

/** Takes requests from the server and runs each through its pipeline. */
export class Gateway {
  private readonly setup: GatewaySetup;
  private readonly budget: BufferBudget;
  private readonly limits: BodyLimits;
  private readonly bodyBounds: BodyBounds;
  private readonly basePath: string;
  private readonly proxyPrefix = '/proxy/';
  private readonly headerNames: HeaderNames;
  private readonly answerHeaders: AnswerHeaders;
  private readonly clientAddresses: ClientAddresses;
  private readonly unguarded = new WeakMap<CompiledPipeline, CompiledPipeline>();
  private active = 0;
  private draining = false;
  private cutting = false;
  private idleListeners: (() => void)[] = [];

  constructor(setup: GatewaySetup) {
    const { server } = setup;
    this.setup = setup;
    this.budget = new BufferBudget(server.max_buffered_bytes);
    this.limits = {
      maxBytes: server.max_body_bytes,
      idleTimeoutMs: server.body_idle_timeout_ms,
      minBytesPerSecond: server.body_min_bytes_per_second,
      totalTimeoutMs: server.body_timeout_ms,
      budget: this.budget,
    };
    this.bodyBounds = {
      maxBytes: server.max_body_bytes,
      maxMembers: server.max_body_members,
      maxDepth: server.max_body_depth,
    };
    this.basePath = server.base_path === '/' ? '' : server.base_path;
    const prefixes = servicePrefixes(server);
    this.headerNames = new HeaderNames(prefixes);
    this.answerHeaders = new AnswerHeaders(prefixes);
    this.clientAddresses = new ClientAddresses(server.trusted_proxies);
  }

  /** Requests that have not settled yet. */
  get activeRequests(): number {
    return this.active;
  }

  get isDraining(): boolean {
    return this.draining;
  }

  get bufferedBytes(): number {
    return this.budget.usedBytes;
  }

  /** From now on every answer asks its client to close the connection, and `/readyz` fails. */
  announceDrain(): void {
    this.draining = true;
  }

  /** Announces the drain and ends long-running answers. Resolves when the last request has settled. */
  drain(): Promise<void> {
    this.announceDrain();
    this.setup.runtime.pending?.beginShutdown();
    this.setup.current().retiring?.();
    return this.active === 0 ? Promise.resolve() : new Promise((resolve) => this.idleListeners.push(resolve));
  }

  /** From now on the end of a connection counts as the gateway's act, not the client's. */
  beginCut(): void {
    this.cutting = true;
  }

  /** Handles one request. `expectsContinue`: the client waits for `100 Continue` before it sends its body. */
  handle(request: IncomingMessage, response: ServerResponse, expectsContinue: boolean): void {
    const arrival = this.arrive(request, response);
    if (arrival === undefined) return;
    // Bytes of this turn of the event loop are read first: most bodies are complete by then.
    atTurnEnd({ run: () => this.take(request, response, arrival, expectsContinue, undefined) });
  }

  /** Handles a request for WebSocket. Without a switch it answers in HTTP and closes the connection. */
  handleUpgrade(request: IncomingMessage, upgrade: ClientUpgrade): void {
    readUpgradeProtocols(request, this.setup.server);
    const arrival = this.arrive(request, upgrade.response);
    if (arrival !== undefined) this.take(request, upgrade.response, arrival, false, upgrade);
  }

  /** Handles a request that the gateway sends to itself. */
  send({ path, headers, body, caller, maxBytes }: OwnRequest): ReturnType<OwnRequests['send']> {
    const { clock } = this.setup;
    const message = localMessage({ method: 'POST', path: this.basePath + path, headers, body });
    const response = new LocalResponse(message, maxBytes);
    const answer = new Promise<{ status: number; body: Buffer }>((resolve, reject) => {
      response.once('close', () => {
        if (response.isWhole) resolve({ status: response.statusCode, body: response.body });
        else
          reject(
            new Error(
              response.isTooLong
                ? `The answer is longer than ${maxBytes} bytes.`
                : 'The answer was broken off.',
            ),
          );
      });
    });
    this.active++;
    const [now, monotonic] = [clock.now(), clock.monotonic()];
    const arrival = { path: message.url ?? '', query: '', now, monotonic, own: { caller } };
    this.take(message, response, arrival, false, undefined);
    return { answer, abort: () => void response.destroy() };
  }

  /** Counts the request as active. Undefined when it is already answered. */
  private arrive(request: IncomingMessage, response: ServerResponse): Arrival | undefined {
    const { setup } = this;
    const { path, query } = splitTarget(request.url ?? '/');
    if (setup.operations(path, request, response)) return undefined;
    this.active++;
    return { path, query, now: setup.clock.now(), monotonic: setup.clock.monotonic() };
  }

  private take(
    request: IncomingMessage,
    response: ServerResponse,
    { path: fullPath, query, now, monotonic, own }: Arrival,
    expectsContinue: boolean,
    upgrade: ClientUpgrade | undefined,
  ): void {
    const { setup } = this;
    const { method = 'GET' } = request;
    let generation = setup.current();
    let place = this.place(generation, method, fullPath);
    // Administration stays with what serves.
    if (setup.canary?.running !== undefined && place.matched.route === undefined && own === undefined) {
      const { running } = setup.canary;
      const chosen = running.choose();
      const itsPlace = chosen && this.place(chosen, method, fullPath);
      if (itsPlace?.matched.route !== undefined) running.giveBack();
      else if (chosen !== undefined && itsPlace !== undefined) [generation, place] = [chosen, itsPlace];
    }
    const ambiguity = ambiguityOf(request);
    const isPassedOn = own === undefined && upgrade === undefined && ambiguity === undefined;
    if (setup.elsewhere !== undefined && isPassedOn && place.matched.route !== undefined) {
      void setup.elsewhere(request, response, expectsContinue).then(() => this.settled());
      return;
    }
    generation.acquire();
    const incoming = new IncomingRequest(request, response, this.limits, expectsContinue);
    const sink = new ResponseSink(response, setup.server.client_stall_timeout_ms);
    const matched =
      own === undefined
        ? place.matched
        : { ...place.matched, pipeline: this.unguardedOf(place.matched.pipeline) };
    const exchange = new Exchange({
      incoming,
      sink,
      upgrade,
      matched,
      dialect: setup.dialects.get(place.matched.endpoint.dialect) ?? fallbackDialect(setup.dialects),
      dialects: setup.dialects,
      generation: generation.hash,
      query,
      bodyBounds: this.bodyBounds,
      headerNames: this.headerNames,
      answerHeaders: this.answerHeaders,
      clientAddresses: this.clientAddresses,
      now,
      monotonic,
    });
    if (own !== undefined) exchange.set(ownRequest, own);
    exchange.responseHeaders.push(this.answerHeaders.requestId, exchange.id);
    if (this.draining) exchange.responseHeaders.push('connection', 'close');
    sink.onClose((complete) => {
      if (complete) return;
      if (sink.stalled) exchange.failure = clientStalled();
      else if (this.cutting) exchange.failure = shutdownError();
      if (!sink.ended) exchange.abort();
    });
    exchange.release = () => {
      incoming.release();
      generation.release();
      this.settled();
    };
    const { runtime } = setup;
    const refusal = ambiguity ?? place.refusal ?? upgrade?.refusal;
    if (refusal) {
      void deliverSafely(exchange, runtime, () => refuse(exchange, refusal, 0, runtime));
      return;
    }
    try {
      readTraceHeaders(exchange);
      const { traceId } = exchange.facts;
      exchange.responseHeaders.push(
        this.answerHeaders.traceId,
        traceId === exchange.id ? traceId : headerSafe(traceId),
      );
    } catch (error) {
      void deliverSafely(exchange, runtime, () => refuse(exchange, error, 0, runtime));
      return;
    }
    if (exchange.service('explain')?.toLowerCase() === 'true') this.trace(exchange);
    void runExchange(exchange, (one) => handleRoute(one, runtime.log, setup.administration), runtime);
  }

  /** The same pipeline without its guardrails. */
  private unguardedOf(pipeline: CompiledPipeline): CompiledPipeline {
    let without = this.unguarded.get(pipeline);
    if (without === undefined) {
      const { name, match, instances } = pipeline;
      const isOn = (feature: Feature): boolean => feature !== 'guardrails';
      without = compilePipeline({ name, match, plugins: [] }, instances, { isOn });
      this.unguarded.set(pipeline, without);
    }
    return without;
  }

  /** Records the routing decisions of the request from now on. Administration routes have none. */
  private trace(exchange: Exchange): void {
    if (exchange.matched.route !== undefined) return;
    const { clock, server } = this.setup;
    const trace = new DecisionTrace({
      prefix: `${server.header_prefix}-`,
      link: `${this.basePath}/logs/${exchange.id}`,
      now: () => clock.monotonic(),
    });
    exchange.trace = trace;
    exchange.body.onRead = () => trace.bodyRead();
  }

  private place(
    generation: ServingGeneration,
    method: string,
    fullPath: string,
  ): { matched: Matched; refusal?: GatewayError } {
    if (hasDotSegment(fullPath) || !fullPath.startsWith('/')) {
      return {
        matched: unmatched(method, fullPath),
        refusal: new GatewayError(
          'invalid_request',
          'The path holds a "." or ".." segment or does not begin with "/". Send the plain path.',
        ),
      };
    }
    const below = this.below(fullPath);
    const proxyOnly = below.startsWith(this.proxyPrefix);
    const path = proxyOnly ? below.slice(this.proxyPrefix.length - 1) : below;
    const matched = generation.compiled.routes.match(method, path, proxyOnly);
    if (matched) return { matched };
    const refusal = proxyOnly
      ? noPipeline(method, path)
      : (noRoute(generation.compiled.routes, method, path) ?? noPipeline(method, path));
    return { matched: unmatched(method, path), refusal };
  }

  /** The path without the base path; both spellings are served. */
  private below(path: string): string {
    const { basePath } = this;
    if (basePath === '' || !path.startsWith(basePath)) return path;
    if (path.length === basePath.length) return '/';
    return path.charCodeAt(basePath.length) === 47 ? path.slice(basePath.length) : path;
  }

  private settled(): void {
    this.active--;
    if (this.active > 0) return;
    const listeners = this.idleListeners;
    this.idleListeners = [];
    for (const listener of listeners) listener();
  }
}

function noPipeline(method: string, path: string): GatewayError {
  return new GatewayError(
    'route_not_found',
    `No pipeline serves ${method} ${path.slice(0, 200)}. Add one to pipelines: in the configuration.`,
  );
}

/** Refusal of a path below the segments of administration, which must not go to a provider. */
function noRoute(routes: RouteTable, method: string, path: string): GatewayError | undefined {
  const found = routes.administrative(method, path);
  if (found === undefined) return undefined;
  const shown = path.slice(0, 200);
  const hint = found.meant === undefined ? 'GET /openapi.json lists all.' : `Did you mean ${found.meant}?`;
  return new GatewayError(
    'route_not_found',
    `The administration API has no ${method} ${shown}. ${hint} A path of this name that a provider has is /proxy${shown}.`,
  );
}

function shutdownError(): GatewayError {
  return new GatewayError(
    'shutting_down',
    'The gateway was stopped and its shutdown deadline passed before the answer was complete.',
  );
}

function unmatched(method: string, path: string): Matched {
  return { pipeline: nowhere, path, endpoint: matchEndpoint(method, path) };
}

/** Path and query as received; an absolute-form target (`GET http://host/path`) loses its origin. */
function splitTarget(url: string): { path: string; query: string } {
  const absolute = url.startsWith('/') ? null : /^https?:\/\/[^/?#]*/i.exec(url);
  const target = absolute ? url.slice(absolute[0].length) || '/' : url;
  const at = target.indexOf('?');
  return at === -1 ? { path: target, query: '' } : { path: target.slice(0, at), query: target.slice(at) };
}

/** Response headers carry Latin-1 at most; a trace id is echoed without anything else. */
function headerSafe(value: string): string {
  return value.replace(/[^\x20-\x7e]/g, '?');
}

function fallbackDialect(dialects: ReadonlyMap<DialectName, Dialect>): Dialect {
  const dialect = dialects.get('openai-chat');
  if (!dialect) throw new Error('The openai-chat dialect is missing.');
  return dialect;
}

/**
 * Refusal of an ambiguous request, which two servers parse in two ways: the gateway would match pipelines by one reading
 * and the provider would serve the other. Undefined for every other request.
 *
 * A `#` is invalid in a request target (RFC 9112, 3.2), and so are more than one Host (3.2) and a Transfer-Encoding in
 * HTTP/1.0, whose framing is faulty then (6.1). Of two Content-Types, parsers differ in which one they take. The
 * connection ends after the answer, because the start of the next request is uncertain.
 */
function ambiguityOf(request: IncomingMessage): GatewayError | undefined {
  if (request.url?.includes('#') === true)
    return ambiguousRequestError(
      'The request target holds a "#". Send a "#" that belongs to a name or a value as %23.',
    );
  if (request.httpVersionMinor === 0 && request.headers['transfer-encoding'] !== undefined)
    return ambiguousRequestError(
      'HTTP/1.0 knows no Transfer-Encoding. Send a Content-Length, or use HTTP/1.1.',
    );
  const { rawHeaders } = request;
  let hosts = 0;
  let types = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? '';
    if (name.length === 4 && name.toLowerCase() === 'host') hosts += 1;
    else if (name.length === 12 && name.toLowerCase() === 'content-type') types += 1;
  }
  if (types > 1) return ambiguousRequestError('The request has more than one Content-Type header. Send one.');
  return hosts > 1
    ? ambiguousRequestError('The request has more than one Host header. Send one.')
    : undefined;
}

function ambiguousRequestError(message: string): GatewayError {
  return new GatewayError('invalid_request', message, { headers: ['connection', 'close'] });
}
