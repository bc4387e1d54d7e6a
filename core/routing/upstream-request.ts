import { EncodeReport } from '../dialects/canonical/chat-codec.ts';
import { hasDotSegment } from '../dialects/match-endpoint.ts';
import type { UpstreamCallFacts, UpstreamPlan } from '../dialects/upstream-plan.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import { ChangedBody } from '../pipeline/request-body.ts';
import type { AttemptBody, JsonPath, JsonValue, AttemptView } from '../pipeline/context.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import { setAt } from '../pipeline/json-splice.ts';
import type { MayBeLarge } from '../pipeline/large-document.ts';
import { mayHoldJson } from '../pipeline/call-hook.ts';
import { callerKeyHeader } from '../pipeline/keys.ts';
import { headerValue, type HeaderList } from '../ports/header-list.ts';
import type { Target, AttemptOptions } from '../pipeline/router.ts';
import { type ForwardedTrace, forwardedTrace } from '../base/trace-context.ts';
import type { UpstreamRequest } from '../ports/transport.ts';
import { targetIdentity } from './credentials.ts';
import { guardrailsOf } from './request-guardrails.ts';
import { type ForwardOptions, forwardRequestHeaders, relevantHeaders } from './forward-headers.ts';
import { translateChat, translateLargeChat, translateOperation, type Translation } from './translation.ts';
import type { CacheSettings } from '../ports/cache.ts';
import type { GuardrailSpecs } from '../ports/guardrails.ts';
import type { ParamEdits } from './params/apply-param-edits.ts';
import type { ProviderDialect } from '../dialects/dialect.ts';
import type { DialectName, EndpointId } from '../dialects/endpoint.ts';
import type { HostFacts } from '../dialects/host-facts.ts';
import type { GatewayConfig } from '../config/schema.ts';
import { runsNoModel } from '../pipeline/named-models.ts';
import type { Clock } from '../ports/clock.ts';
import type { LargeTranslation } from '../ports/large-translation.ts';
import type { JsonObject } from '../dialects/canonical/chat-part.ts';

/** Dependencies for the preparation of requests; one per generation. */
export interface PrepareSetup {
  readonly config: GatewayConfig;
  readonly wires: ProviderDialects;
  readonly clock: Clock;
  /** Absent: large requests are translated on the main thread. */
  readonly largeTranslation?: LargeTranslation | undefined;
}

/** Operations whose bodies are streamed unread, unless their host needs another format. */
const translatable: ReadonlySet<EndpointId> = new Set(['images.generations', 'audio.speech']);

/** Whether the body must be in memory: it is signed, translated, changed by the config, or checked by guardrails. */
export function needsBody(exchange: Exchange, parts: AttemptParts): boolean {
  const { target, params } = parts;
  const { endpoint, body, method, path, upgrade } = exchange;
  if (!body.present) return false;
  const naming = { method, path, isUpgrade: upgrade !== undefined };
  if (target.signsBody) return true;
  // The model in the body must be checked against the allowed ones.
  if (target.models?.isRestricted === true && !runsNoModel(naming)) return true;
  const { input = [] } = guardrailsOf(parts) ?? {};
  if (input.length > 0 && mayHoldJson(exchange)) return true;
  return translatable.has(endpoint.id) && (target.dialect !== 'openai-chat' || params !== undefined);
}

/** A request ready to send. */
export interface PreparedRequest {
  readonly outgoing: OutgoingRequest;
  /** Undefined: the bytes are passed on both ways. */
  readonly translation: Translation | undefined;
}

/**
 * The request in the form of its target; a promise for a large one that is translated. Throws the refusal of a request
 * that the target does not support.
 */
export function prepareRequest(
  parts: AttemptParts,
  { config, wires, clock, largeTranslation }: PrepareSetup,
): PreparedRequest | Promise<PreparedRequest> {
  const { exchange, target, options } = parts;
  const { facts } = exchange;
  if (translatable.has(exchange.endpoint.id) && exchange.body.loaded) {
    const model = bodyObject(sentBody(exchange).json)['model'];
    facts.modelRequested = typeof model === 'string' ? model : '';
  }
  const host = hostFacts(target, facts.modelRequested);
  const plan = planCall(exchange, target, host, wires);
  const { header_prefix: prefix } = config.server;
  const { propagate, otlp } = config.telemetry;
  const trace = propagate ? forwardedTrace(facts, exchange.id, otlp) : undefined;
  if (plan.kind === 'pass') {
    let body = sentBody(exchange);
    if (plan.edit !== undefined && body.loaded) {
      const report = new EncodeReport();
      body = editBody(exchange, plan.edit, report);
      reportDropped(parts, report.dropped, prefix);
    } else if (facts.dropped.length > 0) {
      // This target supports the parts that were dropped for an earlier one.
      reportDropped(parts, nothingDropped, prefix);
    }
    return { outgoing: passThroughRequest(parts, plan.path, body, trace), translation: undefined };
  }
  const translating = {
    exchange,
    host,
    body: bodyObject(sentBody(exchange).json),
    strict: isStrict(exchange, options.strictOpenAiCompliance),
    now: clock.now(),
  };
  const translated = (translation: Translation): PreparedRequest => {
    reportDropped(parts, translation.report.dropped, prefix);
    return { outgoing: translatedRequest(parts, translation, trace), translation };
  };
  if (plan.kind !== 'chat') return translated(translateOperation(translating, plan.codec));
  if (sentBody(exchange).large !== undefined) {
    const chat = { body: sentBody(exchange).bytes, target: target.dialect, headers: exchange.headers };
    const large = { chat: { ...chat, call: callFacts(exchange, host) }, translation: largeTranslation };
    return translateLargeChat(translating, plan.codec, large).then(translated);
  }
  return translated(translateChat(translating, plan.codec));
}

const nothingDropped: readonly string[] = [];

/** Reports to client and log the parts that the target's dialect cannot express, or refuses the request for them. */
function reportDropped(
  { exchange, target, options }: AttemptParts,
  dropped: readonly string[],
  prefix: string,
) {
  exchange.facts.dropped = dropped;
  const header = `${prefix}-dropped`;
  if (dropped.length === 0) {
    exchange.replaceResponseHeader(header, undefined);
    return;
  }
  if (onDropOf(target, options) === 'refuse') {
    throw new GatewayError(
      'not_supported',
      `The provider "${target.provider}" cannot be told ${dropped.join(', ')}. Leave it out, name another provider, or set on_drop: report.`,
      { param: dropped[0] as string },
    );
  }
  exchange.replaceResponseHeader(header, dropped.join(', ').replace(/[^\x20-\x7e]/g, '?'));
}

/** Handling of parts that the target cannot express: the setting of the config, else of the provider, else of the plugin. */
function onDropOf(target: Target, { configOnDrop, onDrop }: AttemptParts['options']): 'report' | 'refuse' {
  return configOnDrop ?? target.onDrop ?? onDrop;
}

/** The request's body, or the one changed by config and attempt hooks. */
type SentBody = Pick<AttemptBody, 'loaded' | 'changed' | 'json' | 'text' | 'bytes' | 'outgoing' | 'hold'> &
  MayBeLarge;

interface OutgoingRequest {
  readonly request: UpstreamRequest;
  /** The gateway requested usage on the client's behalf. */
  readonly stripUsage: boolean;
}

/** The body that this attempt sends. */
export function sentBody(exchange: Exchange): SentBody {
  const { sent } = exchange;
  return sent?.changed === true ? sent : exchange.body;
}

/** The body that this attempt sends, with the edits that its host needs; `report` collects the parts that they drop. */
function editBody(
  exchange: Exchange,
  edit: NonNullable<Extract<UpstreamPlan, { readonly kind: 'pass' }>['edit']>,
  report: EncodeReport,
): SentBody {
  const base = sentBody(exchange);
  const body = new ChangedBody(base);
  edit(
    {
      get json() {
        return body.json;
      },
      set: (path, value) => body.set(path, value as JsonValue),
      remove: (path) => body.remove(path),
    },
    report,
  );
  return body.changed ? body : base;
}

/** The client's own request, passed on in `body`. */
function passThroughRequest(
  parts: AttemptParts,
  path: string,
  body: SentBody,
  trace: ForwardedTrace | undefined,
): OutgoingRequest {
  const { exchange, target } = parts;
  const { facts } = exchange;
  const usage = usageRequest(exchange, body, target);
  const bodyChanged = body.changed || usage !== undefined;
  const headers = clientHeaders(parts, { bodyChanged, trace, translated: undefined });
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
  const request = upstreamRequest(parts, exchange.method, path, headers, payload);
  return { request, stripUsage: usage !== undefined };
}

/** The request in the dialect of its target. */
function translatedRequest(
  parts: AttemptParts,
  { encoded }: Translation,
  trace: ForwardedTrace | undefined,
): OutgoingRequest {
  const speaksAnthropic = parts.target.headers.includes('anthropic-version');
  const translated = { speaksAnthropic };
  const headers = clientHeaders(parts, { bodyChanged: true, trace, translated });
  addTargetHeaders(headers, parts.target);
  const body = typeof encoded.body === 'string' ? Buffer.from(encoded.body, 'utf8') : encoded.body;
  headers.push('content-type', encoded.contentType ?? 'application/json', 'accept-encoding', 'identity');
  headers.push(...(encoded.headers ?? []));
  parts.exchange.facts.requestBytes = body.length;
  return { request: upstreamRequest(parts, 'POST', encoded.path, headers, body), stripUsage: false };
}

function upstreamRequest(
  { target, options }: AttemptParts,
  method: string,
  path: string,
  headers: readonly string[],
  body: UpstreamRequest['body'],
): UpstreamRequest {
  return {
    origin: target.origin,
    guarded: target.guarded,
    method,
    path: target.basePath + withoutDotSegments(path),
    headers,
    body,
    connectTimeoutMs: options.connectTimeoutMs,
    headTimeoutMs: options.headTimeoutMs,
    idleTimeoutMs: options.idleTimeoutMs,
  };
}

/** Rejects dot segments with `invalid_request`: a model is part of some hosts' paths and must not lead out of them. */
function withoutDotSegments(path: string): string {
  const end = path.indexOf('?');
  if (!hasDotSegment(end === -1 ? path : path.slice(0, end))) return path;
  throw new GatewayError(
    'invalid_request',
    'The name of the model holds a "." or ".." between slashes, and this provider has it in its path. Send the plain name.',
    { param: 'model' },
  );
}

function clientHeaders(
  { exchange, target, options, keyPrefix }: AttemptParts,
  own: Pick<ForwardOptions, 'bodyChanged' | 'trace' | 'translated'>,
): string[] {
  return forwardRequestHeaders(exchange.headers, exchange.headerNames, {
    passCredentials: target.passAuthorization,
    dropAuthorization: exchange.get(callerKeyHeader) === 'authorization',
    keyPrefix,
    bodyChanged: own.bodyChanged,
    trace: own.trace,
    translated: own.translated,
    forward: options.forwardHeaders,
    sensitive: options.sensitiveHeaders,
  });
}

/** Adds the credential, and the row's other headers where the client has not sent its own. */
function addTargetHeaders(headers: string[], target: Target): void {
  const { headers: own } = target;
  for (let i = 0; i < own.length; i += 2) {
    const name = own[i] as string;
    if (headerValue(headers, name.toLowerCase()) === undefined) headers.push(name, own[i + 1] as string);
  }
}

/**
 * The body with `stream_options.include_usage`, where a chat client streams without asking for usage; else undefined.
 */
function usageRequest(exchange: Exchange, body: SentBody, target: Target): Buffer | undefined {
  if (exchange.endpoint.id !== 'chat.completions' || target.usageInStream !== 'on_request') return undefined;
  if (!exchange.facts.stream || exchange.dialect.usageStripper === undefined) return undefined;
  const { json } = body;
  if (typeof json !== 'object' || json === null || Array.isArray(json)) return undefined;
  const options = json['stream_options'];
  if (options === undefined || options === null)
    return bytesWith(body, ['stream_options'], { include_usage: true });
  if (typeof options !== 'object' || Array.isArray(options) || options['include_usage'] === true)
    return undefined;
  return bytesWith(body, ['stream_options', 'include_usage'], true);
}

function bytesWith(body: SentBody, path: JsonPath, value: JsonValue): Buffer {
  return body.large?.set(path, value).bytes ?? Buffer.from(setAt(body.text, path, value), 'utf8');
}

/** Parts of one attempt at one target. */
export interface AttemptParts {
  readonly exchange: Exchange;
  readonly target: Target;
  readonly options: AttemptOptions;
  /** Prefix of service keys. */
  readonly keyPrefix: string;
  /** The config's edits of the body. */
  readonly params: ParamEdits | undefined;
  readonly cache: CacheSettings | undefined;
  readonly guardrails: GuardrailSpecs | undefined;
  /** Another attempt may follow: a stream counts as an answer only from its first event on. */
  readonly judged: boolean;
}

/**
 * Checks the body for a modelled endpoint against the rules of its dialect, after the changes of plugins and config, and
 * records its facts. Throws `invalid_json` or `invalid_request` with the field.
 */
export function checkRequest(exchange: Exchange, body: SentBody, strictByDefault: boolean): void {
  const { endpoint, facts } = exchange;
  const { json } = body;
  if (typeof json !== 'object' || json === null || Array.isArray(json)) {
    throw new GatewayError(
      'invalid_json',
      body.bytes.length === 0
        ? 'The request has no body. Send a JSON object.'
        : 'The request body is no JSON object.',
    );
  }
  const call = exchange.dialect.readCall?.(exchange.path);
  const model = call === undefined ? json['model'] : call.model;
  facts.modelRequested = typeof model === 'string' ? model : '';
  facts.stream = call === undefined ? json['stream'] === true : call.stream;
  const issue = exchange.dialect.validateRequest(endpoint.id, json, isStrict(exchange, strictByDefault));
  if (issue) throw new GatewayError('invalid_request', issue.message, { param: issue.param });
}

/** OpenAI compliance: the header decides (both spellings that clients use), else the plugin's option. */
function isStrict(exchange: Exchange, byDefault: boolean): boolean {
  const header =
    exchange.service('strict-open-ai-compliance') ?? exchange.service('strict-openai-compliance');
  return header === undefined ? byDefault : header.toLowerCase() !== 'false';
}

/** The provider's side of every dialect, by name. */
export type ProviderDialects = ReadonlyMap<DialectName, ProviderDialect>;

/** Every plan but a refusal. */
type ServedPlan = Exclude<UpstreamPlan, { readonly kind: 'refuse' }>;

/** Facts about the target for the codecs, for this request's model. */
export function hostFacts(target: Target, model: string): HostFacts {
  return {
    provider: target.provider,
    model,
    quirks: target.quirks,
    usageInStream: target.usageInStream,
    settings: target.settings,
  };
}

/** Parts of a request that determine its plan. */
export interface PlannedCall extends Pick<Exchange, 'endpoint' | 'method' | 'path' | 'query'> {
  readonly dialect: Pick<Exchange['dialect'], 'name'>;
  readonly facts: Pick<Exchange['facts'], 'stream'>;
}

/** Plan for this request to its target. Throws `not_supported` when the target has no such operation. */
export function planCall(
  exchange: PlannedCall,
  target: Target,
  host: HostFacts,
  wires: ProviderDialects,
): ServedPlan {
  const { path, query } = exchange;
  if (target.alsoSpeaks.includes(exchange.dialect.name)) return { kind: 'pass', path: path + query };
  const wire = wires.get(target.dialect);
  if (wire === undefined) throw new Error(`The dialect "${target.dialect}" is missing.`);
  const plan = wire.plan(callFacts(exchange, host));
  if (plan.kind === 'refuse') throw new GatewayError('not_supported', plan.message, { param: 'provider' });
  return plan;
}

/** Facts about a request that a dialect needs to plan it. */
function callFacts(
  { dialect, endpoint, method, path, query, facts }: PlannedCall,
  host: HostFacts,
): UpstreamCallFacts {
  return { endpoint: endpoint.id, spoken: dialect.name, method, path, query, stream: facts.stream, host };
}

/** The JSON object of the request, which translation needs. Throws `invalid_json`. */
function bodyObject(json: unknown): JsonObject {
  if (typeof json === 'object' && json !== null && !Array.isArray(json)) return json as JsonObject;
  throw new GatewayError('invalid_json', 'The request body is no JSON object. Send one.');
}

/** View of the attempt at one target for attempt hooks. */
export class CurrentAttempt implements AttemptView {
  readonly number: number;
  readonly provider: string;
  readonly aiService: string;
  readonly model: string;
  readonly body: AttemptBody;
  readonly cache: CacheSettings | undefined;
  readonly guardrails: GuardrailSpecs | undefined;
  // Private, so that no plugin can read the credential of the target.
  readonly #exchange: Exchange;
  readonly #target: Target;
  readonly #keyPrefix: string;
  readonly #options: AttemptOptions;
  readonly #wires: ProviderDialects;
  #abandonListeners: (() => void)[] | undefined;

  /** `body` is the body of this attempt, which hooks may change. */
  constructor(parts: AttemptParts, body: AttemptBody, wires: ProviderDialects) {
    const { exchange, target, keyPrefix, cache, options } = parts;
    this.number = exchange.facts.attempts;
    this.provider = target.provider;
    this.aiService = target.service;
    this.model = exchange.facts.modelRequested;
    this.body = body;
    this.cache = cache;
    this.guardrails = guardrailsOf(parts);
    this.#exchange = exchange;
    this.#target = target;
    this.#keyPrefix = keyPrefix;
    this.#options = options;
    this.#wires = wires;
  }

  get deployment(): string {
    const { models } = this.#target;
    const target = models?.targetOf(this.#exchange.models.names[0] ?? '', this.#target) ?? this.#target;
    return target.settings['azure_deployment_id'] ?? '';
  }

  get target(): string {
    return targetIdentity(this.#exchange, this.#target, this.#keyPrefix, this.#options.forwardHeaders);
  }

  get isStrict(): boolean {
    return isStrict(this.#exchange, this.#options.strictOpenAiCompliance);
  }

  get terms(): string {
    return `${this.isStrict ? 'strict' : 'loose'} ${onDropOf(this.#target, this.#options)}`;
  }

  get clientHeaders(): HeaderList {
    const { headers, headerNames } = this.#exchange;
    return relevantHeaders(headers, headerNames, this.#options.sensitiveHeaders);
  }

  translates(operation: EndpointId): boolean {
    const { dialect, facts, path, query, endpoint } = this.#exchange;
    const call = { dialect, facts, path, query, method: 'POST', endpoint: { ...endpoint, id: operation } };
    try {
      return planCall(call, this.#target, hostFacts(this.#target, this.model), this.#wires).kind !== 'pass';
    } catch (error) {
      if (GatewayError.is(error)) return false;
      throw error;
    }
  }

  onAbandon(run: () => void): void {
    (this.#abandonListeners ??= []).push(run);
  }

  /** Notifies the listeners that this attempt is discarded. */
  abandon(): void {
    const listeners = this.#abandonListeners ?? [];
    this.#abandonListeners = undefined;
    for (const run of listeners) run();
  }
}
