import { type GatewayConfig, servicePrefixes } from '../../config/schema.ts';
import { isPromise } from '../../base/turns.ts';
import type { JsonValue, MaybePromise } from '../../pipeline/context.ts';
import { Exchange } from '../../pipeline/exchange.ts';
import { TrustedHosts } from '../../base/host-rules.ts';
import type { PlanDocument, SampleRequest, Target } from '../../pipeline/router.ts';
import type { CompiledConfig, PlanLeaf, PlanNode, StrategyMode } from '../plan/plan-node.ts';
import type { SharedEnvironment } from '../plan/environment.ts';
import { callerKey } from '../../pipeline/keys.ts';
import type { KeyRecord } from '../../ports/directory.ts';
import {
  leafTarget,
  namesProvider,
  requestTarget,
  takeAddress,
  type TargetRules,
} from '../resolve-target.ts';
import type { KnownProvider } from '../targets.ts';
import { previewPlan } from './plan-preview.ts';
import { GatewayError } from '../../errors/gateway-error.ts';
import { ChangedBody } from '../../pipeline/request-body.ts';
import { applyParams } from '../attempt.ts';
import { readRoutingHeaders } from '../forward-headers.ts';
import { type IncomingMessage, ServerResponse } from 'node:http';
import { stringify } from 'lossless-json';
import type { Dialect } from '../../dialects/dialect.ts';
import type { DialectName } from '../../dialects/endpoint.ts';
import { matchEndpoint } from '../../dialects/match-endpoint.ts';
import { AnswerHeaders } from '../../pipeline/answer.ts';
import { ClientAddresses } from '../../connection/client-address.ts';
import { BufferBudget, IncomingRequest, ResponseSink } from '../../connection/request-and-answer.ts';
import { localMessage } from '../../connection/local-request.ts';
import { readTraceHeaders } from '../../pipeline/facts.ts';
import { compilePipeline } from '../../pipeline/compile.ts';
import type { Clock } from '../../ports/clock.ts';
import { HeaderNames } from '../../base/header-names.ts';

type PlanPreview = ReturnType<typeof previewPlan>;

/** Dependencies for reading a request from a file. */
interface OfflineSetup {
  readonly dialects: ReadonlyMap<DialectName, Dialect>;
  readonly clock: Clock;
  /** Header prefixes of the gateway, each with its dash, the preferred one first. */
  readonly prefixes: readonly string[];
  /** `server.base_path`. */
  readonly basePath: string;
}

/** Upper bound of a body in a request file. */
const maxBodyBytes = 64 * 1024 * 1024;
/** Headers of a connection, or derived from the body in the file. */
const ownHeaders: ReadonlySet<string> = new Set([
  'content-length',
  'content-encoding',
  'transfer-encoding',
  'expect',
]);

/** A synthetic exchange as the pipeline sees it, with its body in memory. Throws `invalid_header`. */
async function offlineExchange(request: SampleRequest, setup: OfflineSetup): Promise<Exchange> {
  const { dialects, clock, prefixes, basePath } = setup;
  const [url = '/', query] = splitQuery(request.path);
  const path = url.startsWith(`${basePath}/`) && basePath !== '/' ? url.slice(basePath.length) : url;
  const body = Buffer.from(textOf(request.body), 'utf8');
  const message = messageOf(request, body);
  const endpoint = matchEndpoint(request.method, path);
  const dialect = dialects.get(endpoint.dialect) ?? dialects.get('openai-chat');
  if (dialect === undefined) throw new Error('The openai-chat dialect is missing.');
  const response = new ServerResponse(message);
  const limits = {
    maxBytes: maxBodyBytes,
    idleTimeoutMs: 60_000,
    minBytesPerSecond: 0,
    totalTimeoutMs: 60_000,
    budget: new BufferBudget(2 * maxBodyBytes),
  };
  const exchange = new Exchange({
    incoming: new IncomingRequest(message, response, limits, false),
    sink: new ResponseSink(response, 0),
    matched: { pipeline: compilePipeline({ name: 'offline', match: {}, plugins: [] }, []), path, endpoint },
    dialect,
    generation: 'offline',
    query,
    bodyBounds: { maxBytes: maxBodyBytes, maxMembers: 200_000, maxDepth: 128 },
    headerNames: new HeaderNames(prefixes),
    answerHeaders: new AnswerHeaders(prefixes),
    clientAddresses: new ClientAddresses([]),
    now: clock.now(),
    monotonic: clock.monotonic(),
  });
  readTraceHeaders(exchange);
  await exchange.body.load();
  return exchange;
}

function splitQuery(path: string): [url: string, query: string] {
  const at = path.indexOf('?');
  return at === -1 ? [path, ''] : [path.slice(0, at), path.slice(at)];
}

function textOf(body: SampleRequest['body']): string {
  if (body === undefined) return '';
  return typeof body === 'string' ? body : (stringify(body) ?? '');
}

function messageOf({ method, path, headers }: SampleRequest, body: Buffer): IncomingMessage {
  const given = Object.entries(headers).filter(([name]) => !ownHeaders.has(name.toLowerCase()));
  return localMessage({ method, path, headers: given.flat(), body });
}

/** Dependencies of `offlinePlan`. */
interface OfflineParts extends Pick<OfflineSetup, 'dialects' | 'clock'> {
  readonly gateway: GatewayConfig;
  /** Every addressable provider, from `compileTargets`. */
  readonly known: ReadonlyMap<string, KnownProvider>;
  readonly shared: Omit<SharedEnvironment, 'serviceOf'>;
  /** In a gateway that runs: the caller, and how its requests find their targets. Absent: of nobody. */
  readonly caller?: {
    readonly key: KeyRecord;
    readonly rules: TargetRules;
    readonly targetOf: (exchange: Exchange, leaf: PlanLeaf) => MaybePromise<Target>;
    readonly serviceOf: SharedEnvironment['serviceOf'];
  };
}

/** Preview of a request's way through a config, with the assumptions. */
export interface OfflinePlan extends Omit<PlanPreview, 'attempts'> {
  readonly config: CompiledConfig;
  readonly request: SampleRequest;
  readonly attempts: readonly (PlanPreview['attempts'][number] & { readonly target: TargetPreview })[];
  /** Assumptions, as sentences. */
  readonly assumptions: readonly string[];
}

/** Computes a plan without any network call. Throws a `GatewayError` for invalid headers. */
export async function offlinePlan(
  request: SampleRequest,
  config: CompiledConfig,
  { gateway, known, shared, dialects, clock, caller }: OfflineParts,
): Promise<OfflinePlan> {
  const { server, security } = gateway;
  const prefixes = servicePrefixes(server);
  const exchange = await offlineExchange(request, { dialects, clock, prefixes, basePath: server.base_path });
  if (caller !== undefined) exchange.set(callerKey, caller.key);
  const rules: TargetRules = caller?.rules ?? {
    known,
    trustedHosts: new TrustedHosts(security.trusted_hosts),
    headerPrefix: server.header_prefix,
    keyPrefix: security.key_prefix,
  };
  const isComplete = config.leaves.every(({ provider }) => provider !== undefined);
  if (!isComplete && !namesProvider(exchange)) await takeAddress(exchange, rules);
  const targetOf = (one: Exchange, { provider, settings }: PlanLeaf): MaybePromise<Target> => {
    const { apiKey, fields, customHost } = settings;
    const brought = { apiKey, fields, customHost, inline: config.slug === undefined };
    return provider !== undefined
      ? leafTarget(one, provider, rules, brought)
      : requestTarget(one, rules, undefined, brought);
  };
  const serviceOf = ({ provider }: PlanLeaf): string => {
    const name = provider?.name.replace(/^@/, '') ?? '';
    return known.get(name)?.row.service ?? name;
  };
  const { branches, attempts, refused } = previewPlan(exchange, config, {
    state: shared.state,
    breakers: shared.breakers,
    prices: shared.prices,
    random: () => shared.random(),
    serviceOf: caller?.serviceOf ?? serviceOf,
  });
  return {
    config,
    request,
    branches,
    refused,
    attempts: attempts.map((one) => ({
      ...one,
      target: previewTarget(exchange, one.leaf, caller?.targetOf ?? targetOf),
    })),
    assumptions: assumptionsOf(config, caller !== undefined),
  };
}

function assumptionsOf({ root, leaves }: CompiledConfig, knowsCaller: boolean): readonly string[] {
  const where = knowsCaller ? 'here' : 'offline';
  const modes = new Set<StrategyMode>();
  let sticky = false;
  const look = (node: PlanNode): void => {
    if (node.kind === 'leaf') return;
    modes.add(node.strategy.mode);
    sticky ||= node.strategy.mode === 'loadbalance' && node.strategy.sticky !== undefined;
    node.children.forEach(look);
  };
  look(root);
  const assumptions = ['Nothing was sent. Every attempt is taken to fail, so that all of the plan is seen.'];
  if (leaves.some(({ breaker }) => breaker !== undefined))
    assumptions.push(`Breakers are unknown ${where} and taken as closed.`);
  if (modes.has('least-latency')) assumptions.push(`Latencies are unknown ${where}: no target was measured.`);
  if (modes.has('round-robin')) assumptions.push(`Turns are unknown ${where}: this is the first one.`);
  if (sticky) assumptions.push(`Sticky assignments are unknown ${where}: none was made before.`);
  if (knowsCaller) return assumptions;
  if (sticky || modes.has('conditional') || modes.has('canary'))
    assumptions.push('The caller is unknown offline: fields of "api_key" have no value.');
  return assumptions;
}

/** Preview of the attempts at one target. Holds no credential. */
interface TargetPreview {
  /** As addressed; empty when it is unknown. */
  readonly provider: string;
  /** Address of the provider without credentials: `https://api.openai.com/v1`. */
  readonly host: string;
  readonly model: string;
  /** Changes of the config to this request's body. */
  readonly params: ParamPreview;
  /** Milliseconds; undefined: the options of the `provider` plugin apply. */
  readonly requestTimeoutMs: number | undefined;
  readonly firstTokenTimeoutMs: number | undefined;
  readonly idleTimeoutMs: number | undefined;
  readonly retry: PlanLeaf['settings']['retry'];
  readonly cache: PlanLeaf['settings']['cache'];
  readonly breaker: PlanLeaf['breaker'];
  /** Reason why there would be no attempt. */
  readonly problem: string | undefined;
}

/** Changed members by name, and paths of removed ones. */
interface ParamPreview {
  readonly set: Readonly<Record<string, JsonValue>>;
  readonly removed: readonly string[];
}

/**
 * Previews one target of a request whose body is in memory. `targetOf` throws the error that prevents the target.
 */
function previewTarget(
  exchange: Exchange,
  leaf: PlanLeaf,
  targetOf: (exchange: Exchange, leaf: PlanLeaf) => MaybePromise<Target>,
): TargetPreview {
  const { settings, breaker } = leaf;
  const { retry, cache, firstTokenTimeoutMs, idleTimeoutMs } = settings;
  const { path } = exchange;
  try {
    const { params, model } = previewEdits(exchange, leaf);
    const preview = {
      params,
      model,
      firstTokenTimeoutMs,
      idleTimeoutMs,
      retry,
      cache,
      breaker,
      requestTimeoutMs: settings.requestTimeoutMs,
    };
    try {
      const said = readRoutingHeaders(exchange).requestTimeoutMs;
      const target = targetOf(exchange, leaf);
      const requestTimeoutMs = said ?? settings.requestTimeoutMs;
      if (isPromise(target)) {
        // Its secret is read from a secret manager; the plan does not wait for that.
        target.catch(() => undefined);
        const named = leaf.provider?.name ?? '';
        return { ...preview, requestTimeoutMs, provider: named, host: '', problem: undefined };
      }
      const { provider, origin, basePath } = target;
      return { ...preview, requestTimeoutMs, provider, host: origin + basePath, problem: undefined };
    } catch (error) {
      if (!GatewayError.is(error)) throw error;
      return { ...preview, provider: leaf.provider?.name ?? '', host: '', problem: error.message };
    }
  } finally {
    // Undo: the model may have been put into the path, for clients whose dialect has it there.
    exchange.path = path;
  }
}

function previewEdits(exchange: Exchange, leaf: PlanLeaf): { params: ParamPreview; model: string } {
  const { params } = leaf.settings;
  const sent = new ChangedBody(exchange.body);
  if (params !== undefined) applyParams(params, exchange, sent);
  const before = membersOf(exchange.body.json);
  const after = membersOf(sent.json);
  const set: Record<string, JsonValue> = {};
  const written = [...(params?.defaults ?? []), ...(params?.overrides ?? [])].map(([name]) => name);
  for (const name of written) {
    const value = after[name];
    if (value !== undefined && value !== before[name]) set[name] = value;
  }
  const inPath = exchange.dialect.readCall?.(exchange.path)?.model;
  const named = inPath ?? after['model'];
  const removed = (params?.drops ?? []).map(pathText);
  return { params: { set, removed }, model: typeof named === 'string' ? named : '' };
}

function membersOf(json: JsonValue | undefined): Readonly<Record<string, JsonValue>> {
  return typeof json === 'object' && json !== null && !Array.isArray(json) ? json : {};
}

function pathText(path: readonly (string | number)[]): string {
  return path
    .map((step, index) =>
      typeof step === 'number' || step === '*' ? `[${step}]` : index === 0 ? step : `.${step}`,
    )
    .join('');
}

/** The plan for programs. */
export function planDocument({ branches, attempts, refused, assumptions }: OfflinePlan): PlanDocument {
  return {
    branches: branches.map(({ candidates, ...branch }) => ({ ...branch, candidates: [...candidates] })),
    tries: attempts.map(tryDocument),
    refused:
      refused === undefined ? null : { status: refused.status, code: refused.code, message: refused.message },
    assumptions: [...assumptions],
  };
}

function tryDocument({
  leaf,
  hedge,
  rules,
  target,
}: OfflinePlan['attempts'][number]): PlanDocument['tries'][number] {
  const { provider, model, params, retry, cache, breaker, problem = null } = target;
  return {
    option: leaf.path,
    name: leaf.name ?? null,
    provider,
    model,
    params: { set: { ...params.set }, removed: [...params.removed] },
    request_timeout_ms: target.requestTimeoutMs ?? null,
    first_token_timeout_ms: target.firstTokenTimeoutMs ?? null,
    idle_timeout_ms: target.idleTimeoutMs ?? null,
    retry:
      retry === undefined
        ? null
        : {
            attempts: retry.attempts,
            on_status_codes: [...retry.onStatusCodes],
            use_retry_after_headers: retry.useRetryAfter,
          },
    cache:
      cache === undefined
        ? null
        : { mode: cache.mode, max_age_ms: cache.maxAgeMs ?? null, threshold: cache.threshold ?? null },
    breaker:
      breaker === undefined
        ? null
        : { failure_threshold: breaker.failureThreshold, cooldown_ms: breaker.cooldownMs },
    hedge:
      hedge === undefined ? null : { after_ms: hedge.afterMs, others: hedge.others.map(({ path }) => path) },
    on_failure: rules.map(({ statuses, by, then }) => ({
      statuses: statuses === undefined ? null : [...statuses],
      by,
      then,
    })),
    problem,
  };
}
