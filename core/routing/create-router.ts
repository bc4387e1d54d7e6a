import type { GatewayConfig } from '../config/schema.ts';
import { ChangedBody } from '../pipeline/attempt-body.ts';
import { clientLeft } from '../pipeline/client-left.ts';
import type { Answer } from '../pipeline/answer.ts';
import { callHook, isPromise, type HookRuntime } from '../pipeline/call-hook.ts';
import type { AttemptStep } from '../pipeline/compile.ts';
import type { AttemptBody, AttemptView, MaybePromise, RequestContext } from '../pipeline/context.ts';
import { Exchange } from '../pipeline/exchange.ts';
import { setAt } from '../pipeline/json-splice.ts';
import { loadBody } from '../pipeline/load-body.ts';
import { callerKeyHeader } from '../pipeline/keys.ts';
import { headerValue } from '../ports/header-list.ts';
import { TrustedHosts } from '../ports/host-rules.ts';
import type { ProviderTable } from '../ports/provider-row.ts';
import type { RouteOptions, Router, Target } from '../ports/router.ts';
import type { Transport, UpstreamRequest } from '../ports/transport.ts';
import { runAttemptedHooks } from './attempted-hooks.ts';
import { checkRequest } from './check-request.ts';
import { forwardRequestHeaders } from './forward-headers.ts';
import { resolveTarget } from './resolve-target.ts';
import { targetIdentity } from './target-identity.ts';
import { compileTargets } from './targets.ts';
import { FailedAttempt, UpstreamAnswer } from './upstream-answer.ts';

export interface RouterSetup {
  readonly config: GatewayConfig;
  readonly table: ProviderTable;
  readonly transport: Transport;
  readonly runtime: HookRuntime;
}

/** The router of one generation: its providers compiled, the transport shared with other generations. */
export function createRouter(setup: RouterSetup): Router {
  const { config } = setup;
  const known = compileTargets(config.providers, setup.table);
  const { key_prefix: keyPrefix } = config.security;
  const rules = {
    known,
    headerPrefix: config.server.header_prefix,
    keyPrefix,
    trustedHosts: new TrustedHosts(config.security.trusted_hosts),
  };
  return {
    resolve: (context, options) => resolveTarget(context, rules, options.defaultProvider),
    execute: (context, target, options) => execute(asExchange(context), target, options, setup, keyPrefix),
  };
}

function asExchange(context: RequestContext): Exchange {
  if (context instanceof Exchange) return context;
  throw new TypeError('The router carries only requests of the pipeline.');
}

/** `https://host:port` → `host:port`; the built-in provider has none and is called `mock`. */
function hostOf(origin: string): string {
  return origin.startsWith('mock:') ? 'mock' : origin.slice(origin.indexOf('//') + 2);
}

async function execute(
  exchange: Exchange,
  target: Target,
  options: RouteOptions,
  setup: RouterSetup,
  keyPrefix: string,
): Promise<Answer> {
  const checked = checkRequest(exchange, options.strictOpenAiCompliance);
  if (checked !== undefined) await checked;
  const { facts } = exchange;
  facts.attempts++;
  if (exchange.pipeline.attempt.length + exchange.pipeline.attempted.length > 0) {
    exchange.attempt = new CurrentAttempt(exchange, target, keyPrefix);
    const pending = runAttemptHooks(exchange, setup.runtime, 0);
    const early = isPromise(pending) ? await pending : pending;
    if (early !== undefined) {
      // Nobody was asked.
      facts.attempts--;
      return early;
    }
  }
  if (exchange.aborted) throw exchange.failure ?? clientLeft();
  const outgoing = buildRequest(exchange, target, options, keyPrefix);
  facts.upstreamHost = hostOf(target.origin);
  facts.upstreamStartedAt = setup.runtime.clock.monotonic();
  let result = await send(exchange, options, setup, outgoing);
  // A pooled connection that the provider had closed meanwhile: not the provider's failure, and nothing was served.
  if (
    result instanceof FailedAttempt &&
    result.facts.stale &&
    isResendable(outgoing.request) &&
    !exchange.aborted
  ) {
    facts.resent = true;
    result = await send(exchange, options, setup, outgoing);
  }
  if (result instanceof FailedAttempt) throw result.error;
  return exchange.pipeline.attempted.length > 0 ? runAttemptedHooks(exchange, result, setup.runtime) : result;
}

function isResendable(request: UpstreamRequest): boolean {
  return request.body === null || request.body instanceof Uint8Array;
}

class CurrentAttempt implements AttemptView {
  readonly number: number;
  readonly provider: string;
  readonly aiService: string;
  readonly model: string;
  readonly body: AttemptBody;
  // Private, so that no plugin gets at the credential of the target.
  readonly #exchange: Exchange;
  readonly #target: Target;
  readonly #keyPrefix: string;

  constructor(exchange: Exchange, target: Target, keyPrefix: string) {
    this.number = exchange.facts.attempts;
    this.provider = target.provider;
    this.aiService = target.service;
    this.model = exchange.facts.modelRequested;
    this.body = new ChangedBody(exchange.body);
    this.#exchange = exchange;
    this.#target = target;
    this.#keyPrefix = keyPrefix;
  }

  get target(): string {
    return targetIdentity(this.#exchange, this.#target, this.#keyPrefix);
  }
}

/** From the `from`-th hook on, until one answers. A promise only when a hook returns one, or a body has to come. */
function runAttemptHooks(
  exchange: Exchange,
  runtime: HookRuntime,
  from: number,
): MaybePromise<Answer | undefined> {
  const steps = exchange.pipeline.attempt;
  for (let i = from; i < steps.length; i++) {
    const step = steps[i] as AttemptStep;
    const loading = loadBody(exchange, step.loadsBody);
    if (loading !== undefined) return loading.then(() => runAttemptHooks(exchange, runtime, i));
    const answer = callHook(step.instance, 'attempt', runtime, () => step.run(exchange));
    if (isPromise(answer)) return answer.then((came) => came ?? runAttemptHooks(exchange, runtime, i + 1));
    if (answer !== undefined) return answer;
  }
  return undefined;
}

function send(
  exchange: Exchange,
  options: RouteOptions,
  setup: RouterSetup,
  { request, stripUsage }: OutgoingRequest,
): Promise<Answer | FailedAttempt> {
  return new Promise((resolve) => {
    const answer = new UpstreamAnswer(exchange, resolve, {
      clock: setup.runtime.clock,
      maxAnswerBytes: options.maxAnswerBytes,
      stripUsage,
    });
    const call = setup.transport.send(request, answer);
    answer.started(call);
    exchange.onAbort(() => call.abort(clientLeft()));
  });
}

/** The request's body, or what the attempt's hooks made of it. */
type SentBody = Pick<AttemptBody, 'loaded' | 'changed' | 'json' | 'text' | 'outgoing'>;

function sentBody(exchange: Exchange): SentBody {
  const own = exchange.pipeline.attempt.length > 0 ? exchange.attempt.body : undefined;
  return own?.changed === true ? own : exchange.body;
}

interface OutgoingRequest {
  readonly request: UpstreamRequest;
  /** Usage was asked for on the client's behalf. */
  readonly stripUsage: boolean;
}

function buildRequest(
  exchange: Exchange,
  target: Target,
  options: RouteOptions,
  keyPrefix: string,
): OutgoingRequest {
  const { facts } = exchange;
  const body = sentBody(exchange);
  const usage = usageRequest(exchange, body, target);
  const headers = forwardRequestHeaders(exchange.headers, exchange.headerNames, {
    passCredentials: target.passAuthorization,
    dropAuthorization: exchange.get(callerKeyHeader) === 'authorization',
    keyPrefix,
    bodyChanged: body.changed || usage !== undefined,
  });
  addTargetHeaders(headers, target);
  const encoding = exchange.endpoint.modelled ? 'identity' : exchange.header('accept-encoding');
  if (encoding !== undefined) headers.push('accept-encoding', encoding);
  const outgoing = usage ?? (body.loaded ? body.outgoing : undefined);
  let payload: UpstreamRequest['body'] = null;
  if (outgoing !== undefined) {
    payload = outgoing.length > 0 || exchange.body.present ? outgoing : null;
    facts.requestBytes = outgoing.length;
  } else if (exchange.body.present) {
    payload = exchange.body.stream();
    const length = exchange.header('content-length');
    if (length !== undefined) headers.push('content-length', length);
    facts.requestBytes = Number(length ?? 0);
  }
  const request: UpstreamRequest = {
    origin: target.origin,
    guarded: target.guarded,
    method: exchange.method,
    path: target.basePath + exchange.path + exchange.query,
    headers,
    body: payload,
    connectTimeoutMs: options.connectTimeoutMs,
    headTimeoutMs: options.headTimeoutMs,
    idleTimeoutMs: options.idleTimeoutMs,
  };
  return { request, stripUsage: usage !== undefined };
}

/** The credential always; the row's other headers where the client has not sent its own. */
function addTargetHeaders(headers: string[], target: Target): void {
  const { headers: own } = target;
  for (let i = 0; i < own.length; i += 2) {
    const name = own[i] as string;
    if (headerValue(headers, name.toLowerCase()) === undefined) headers.push(name, own[i + 1] as string);
  }
}

/** The body with `stream_options.include_usage`, where a chat client streams without asking for usage; else undefined. */
function usageRequest(exchange: Exchange, body: SentBody, target: Target): Buffer | undefined {
  if (exchange.endpoint.id !== 'chat.completions' || target.usageInStream !== 'on_request') return undefined;
  if (!exchange.facts.stream || exchange.dialect.usageStripper === undefined) return undefined;
  const { json, text } = body;
  if (typeof json !== 'object' || json === null || Array.isArray(json)) return undefined;
  const options = json['stream_options'];
  if (options === undefined || options === null) {
    return Buffer.from(setAt(text, ['stream_options'], { include_usage: true }), 'utf8');
  }
  if (typeof options !== 'object' || Array.isArray(options) || options['include_usage'] === true)
    return undefined;
  return Buffer.from(setAt(text, ['stream_options', 'include_usage'], true), 'utf8');
}
