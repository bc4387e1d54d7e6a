import type { GatewayConfig } from '../config/schema.ts';
import { EncodeReport } from '../dialects/canonical/encode-report.ts';
import type { EndpointId } from '../dialects/endpoint.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { Answer } from '../pipeline/answer.ts';
import { isPromise, type HookRuntime } from '../pipeline/call-hook.ts';
import { clientLeft } from '../pipeline/client-left.ts';
import type { MaybePromise, RequestContext } from '../pipeline/context.ts';
import { Exchange } from '../pipeline/exchange.ts';
import type { CredentialFactory } from '../ports/credentials.ts';
import { TrustedHosts } from '../ports/host-rules.ts';
import type { ProviderTable } from '../ports/provider-row.ts';
import type { RouteOptions, Router, Target } from '../ports/router.ts';
import type { Transport, UpstreamRequest } from '../ports/transport.ts';
import { runAttemptedHooks } from './attempted-hooks.ts';
import { authorized } from './authorize.ts';
import {
  editedBody,
  passedRequest,
  sentBody,
  translatedRequest,
  type OutgoingRequest,
  type RequestParts,
} from './build-request.ts';
import { catalogueTarget, listsModels, wantsCatalogue } from './catalogue-request.ts';
import { checkRequest, isStrict } from './check-request.ts';
import { CurrentAttempt, runAttemptHooks } from './current-attempt.ts';
import { ModelCatalogue, type ModelListings } from './model-catalogue.ts';
import { hostFacts, planCall, type ProviderDialects } from './plan-call.ts';
import {
  addressedModel,
  defaultTarget,
  resolveTarget,
  slugTarget,
  type TargetRules,
} from './resolve-target.ts';
import { compileTargets } from './targets.ts';
import { translatedAnswer } from './translated-answer.ts';
import { bodyObject, translateChat, translateOperation, type Translation } from './translation.ts';
import { queryModel, sendUpgrade } from './upgrade.ts';
import { FailedAttempt, UpstreamAnswer } from './upstream-answer.ts';

export interface RouterSetup {
  readonly config: GatewayConfig;
  readonly table: ProviderTable;
  readonly transport: Transport;
  readonly runtime: HookRuntime;
  /** The provider's side of every wire. */
  readonly wires: ProviderDialects;
  /** How hosts list their models. */
  readonly listings: ModelListings;
  readonly credentials: CredentialFactory;
}

/** The router of one generation: its providers compiled, the transport shared with other generations. */
export function createRouter(setup: RouterSetup): Router {
  const { config, transport, listings } = setup;
  const { key_prefix: keyPrefix } = config.security;
  const { header_prefix: headerPrefix } = config.server;
  const known = compileTargets(config.providers, setup.table, { factory: setup.credentials, headerPrefix });
  const trustedHosts = new TrustedHosts(config.security.trusted_hosts);
  const rules = { known, headerPrefix, keyPrefix, trustedHosts };
  const catalogue = new ModelCatalogue({ known, listings, transport, clock: setup.runtime.clock });
  return {
    resolve(context, { defaultProvider }) {
      const exchange = asExchange(context);
      if (wantsCatalogue(exchange, defaultProvider)) return catalogueTarget;
      return resolveTarget(context, rules) ?? addressedTarget(exchange, rules, defaultProvider);
    },
    execute(context, target, options) {
      if (target === catalogueTarget) return catalogue.answer();
      const exchange = asExchange(context);
      if (!listsModels(exchange)) return execute(exchange, target, options, setup, keyPrefix);
      return catalogue
        .ofTarget(target, options)
        .then((listed) => listed ?? execute(exchange, target, options, setup, keyPrefix));
    },
  };
}

/** The target that the request's model names (`@slug/model`), which then loses the slug; else the default. */
function addressedTarget(
  exchange: Exchange,
  rules: TargetRules,
  defaultProvider: string | undefined,
): MaybePromise<Target> {
  const { body, endpoint } = exchange;
  if (!endpoint.modelled) return defaultTarget(exchange, rules, defaultProvider);
  if (!body.loaded) return body.load().then(() => addressedTarget(exchange, rules, defaultProvider));
  const inPath = exchange.dialect.readCall?.(exchange.path);
  const { json } = body;
  const inBody =
    typeof json === 'object' && json !== null && !Array.isArray(json) ? json['model'] : undefined;
  const named = addressedModel(inPath === undefined ? inBody : inPath.model, rules.known);
  if (named === undefined) return defaultTarget(exchange, rules, defaultProvider);
  const target = slugTarget(exchange, named.slug, rules);
  if (inPath === undefined) body.set(['model'], named.model);
  else exchange.path = withoutSlug(exchange.path, named.slug);
  return target;
}

/** The path without the first `@slug/`, however it is encoded. */
function withoutSlug(path: string, slug: string): string {
  const at = /(?:@|%40)/i.exec(path);
  if (at === null) return path;
  const rest = path.slice(at.index + at[0].length + slug.length).replace(/^(?:\/|%2f)/i, '');
  return path.slice(0, at.index) + rest;
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
  if (exchange.upgrade !== undefined) facts.modelRequested = queryModel(exchange.query);
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
  const parts: RequestParts = { exchange, target, options, keyPrefix };
  if (needsBody(exchange, target) && !exchange.body.loaded) await exchange.body.load();
  const { outgoing, translation } = prepare(parts, setup);
  let { request } = outgoing;
  if (target.credentials !== undefined) {
    const signed = authorized(request, target.credentials);
    request = isPromise(signed) ? await signed : signed;
  }
  facts.upstreamHost = hostOf(target.origin);
  facts.upstreamStartedAt = setup.runtime.clock.monotonic();
  if (exchange.upgrade !== undefined) {
    const { transport, runtime } = setup;
    return sendUpgrade({ exchange, request, options, transport, clock: runtime.clock });
  }
  const sending = { exchange, options, setup, request, stripUsage: outgoing.stripUsage, translation };
  let result = await send(sending);
  // A pooled connection that the provider had closed meanwhile: not the provider's failure, and nothing was served.
  if (result instanceof FailedAttempt && result.facts.stale && isResendable(request) && !exchange.aborted) {
    facts.resent = true;
    result = await send(sending);
  }
  if (result instanceof FailedAttempt) throw result.error;
  if (translation !== undefined)
    result = await translatedAnswer(exchange, result, translation, setup.runtime.clock);
  return exchange.pipeline.attempted.length > 0 ? runAttemptedHooks(exchange, result, setup.runtime) : result;
}

/** Operations whose bodies flow by unread, unless their host wants them in another shape. */
const translatable: ReadonlySet<EndpointId> = new Set(['images.generations', 'audio.speech']);

/** The body has to be in memory: it is signed, or said in other words. */
function needsBody({ endpoint, body }: Exchange, target: Target): boolean {
  if (!body.present) return false;
  return target.signsBody || (translatable.has(endpoint.id) && target.dialect !== 'openai-chat');
}

interface Prepared {
  readonly outgoing: OutgoingRequest;
  /** Undefined: the bytes are passed on both ways. */
  readonly translation: Translation | undefined;
}

/** The request as its target wants it. Throws what the target cannot be asked. */
function prepare(parts: RequestParts, setup: RouterSetup): Prepared {
  const { exchange, target, options } = parts;
  const { facts } = exchange;
  if (translatable.has(exchange.endpoint.id) && exchange.body.loaded) {
    const model = bodyObject(exchange.body.json)['model'];
    facts.modelRequested = typeof model === 'string' ? model : '';
  }
  const host = hostFacts(target, facts.modelRequested);
  const plan = planCall(exchange, target, host, setup.wires);
  const { header_prefix: prefix } = setup.config.server;
  if (plan.kind === 'pass') {
    let body = sentBody(exchange);
    if (plan.edit !== undefined && body.loaded) {
      const report = new EncodeReport();
      body = editedBody(exchange, plan.edit, report);
      reportDropped(parts, report.dropped, prefix);
    }
    return { outgoing: passedRequest(parts, plan.path, body), translation: undefined };
  }
  const translating = {
    exchange,
    host,
    body: bodyObject(sentBody(exchange).json),
    strict: isStrict(exchange, options.strictOpenAiCompliance),
    now: setup.runtime.clock.now(),
  };
  const translation =
    plan.kind === 'chat'
      ? translateChat(translating, plan.codec)
      : translateOperation(translating, plan.codec);
  reportDropped(parts, translation.report.dropped, prefix);
  return { outgoing: translatedRequest(parts, translation), translation };
}

/** Tells the client and the log what the target's wire cannot say, or refuses the request for it. */
function reportDropped(
  { exchange, target, options }: RequestParts,
  dropped: readonly string[],
  prefix: string,
): void {
  exchange.facts.dropped = dropped;
  const header = `${prefix}-dropped`;
  if (dropped.length === 0) {
    exchange.replaceResponseHeader(header, undefined);
    return;
  }
  if ((target.onDrop ?? options.onDrop) === 'refuse') {
    throw new GatewayError(
      'not_supported',
      `The provider "${target.provider}" cannot be told ${dropped.join(', ')}. Leave it out, name another provider, or set on_drop: report.`,
      { param: dropped[0] as string },
    );
  }
  exchange.replaceResponseHeader(header, dropped.join(', ').replace(/[^\x20-\x7e]/g, '?'));
}

function isResendable(request: UpstreamRequest): boolean {
  return request.body === null || request.body instanceof Uint8Array;
}

interface Sending {
  readonly exchange: Exchange;
  readonly options: RouteOptions;
  readonly setup: RouterSetup;
  readonly request: UpstreamRequest;
  readonly stripUsage: boolean;
  readonly translation: Translation | undefined;
}

function send(sending: Sending): Promise<Answer | FailedAttempt> {
  const { exchange, options, setup, request, stripUsage, translation } = sending;
  return new Promise((resolve) => {
    const answer = new UpstreamAnswer(exchange, resolve, {
      clock: setup.runtime.clock,
      maxAnswerBytes: options.maxAnswerBytes,
      stripUsage,
      translated: translation === undefined ? undefined : { streams: translation.streams },
    });
    const call = setup.transport.send(request, answer);
    answer.started(call);
    exchange.onAbort(() => call.abort(clientLeft()));
  });
}
