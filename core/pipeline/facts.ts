import { isHeaderName } from '../base/header-names.ts';
import { readTraceParent, spanIdOfRequest } from '../base/trace-context.ts';
import type { Usage } from '../dialects/usage.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { PricedModels } from '../ports/prices.ts';

/** One attempt as the log shows it; times in milliseconds after acceptance. */
export interface LoggedAttempt {
  readonly option: string;
  readonly provider: string;
  readonly model: string;
  readonly status: number;
  readonly error: string;
  readonly start_ms: number;
  readonly end_ms: number;
  readonly lost: boolean;
  /** Why the target was not asked at all; absent for one that was. */
  readonly skipped?: string;
}

/** Longest provider and model that are kept of one attempt, in UTF-16 units: a request may name any. */
const maxName = 255;

/** One attempt of a request in the form of the log. */
export function loggedAttempt({ option, provider, model, ...rest }: AttemptRecord): LoggedAttempt {
  const logged = {
    option,
    provider: provider.slice(0, maxName),
    model: model.slice(0, maxName),
    status: rest.status,
    error: rest.error,
    start_ms: roundedMs(rest.startedMs),
    end_ms: roundedMs(rest.endedMs),
    lost: rest.lost,
  };
  return rest.skipped === undefined ? logged : { ...logged, skipped: rest.skipped };
}

/** Milliseconds to the microsecond: more would be noise. */
export function roundedMs(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}

/**
 * Facts about a request. The pipeline, the router and plugins fill them in; `settled` reads them.
 */
export interface RequestFacts {
  organisationId: string;
  workspaceId: string;
  apiKeyId: string;
  userId: string;
  /** Kind of provider (`openai`), for analytics and prices. */
  aiService: string;
  /** Prices of an integration; undefined: those of `aiService`. */
  pricedBy: PricedModels | undefined;
  /** As addressed: row name, YAML provider or slug. */
  provider: string;
  upstreamHost: string;
  modelRequested: string;
  /** What the request does, in the words of the log (`mcp.tools.call`), where its endpoint does not tell; else empty. */
  operation: string;
  /** Slug of the MCP server that the request is for; empty for none. */
  mcpServer: string;
  /** The tool that is called there; empty for none. */
  mcpTool: string;
  /** The answer says that what was asked for has failed, whatever its status is. */
  answerFailed: boolean;
  modelAnswered: string;
  stream: boolean;
  config: string;
  /** Of a saved config; empty for every other. */
  configVersion: string;
  prompt: string;
  /** Version number of the prompt. */
  promptVersion: string;
  virtualKey: string;
  cacheStatus: string;
  attempts: number;
  /** Attempts after the first one at the target that answered; -1 when all of them failed. */
  retries: number;
  /** Place of the last tried target in the config: `config.targets[1]`; `config` without targets. */
  option: string;
  /**
   * In the order in which they ended; empty without a config, and when the first one was served without a decision trace.
   */
  attemptRecords: readonly AttemptRecord[];
  /** Cost of attempts from which nothing was served, in US dollars. */
  lostCost: number;
  /** JSON of the gateway's decisions and their reasons; empty unless the request asked for it. Complete when it settles. */
  decision: string;
  /** Guardrail verdicts, in the order in which the guardrails began. */
  verdicts: readonly Verdict[];
  /** Names of the limits for which a target was passed over. */
  limits: readonly string[];
  resent: boolean;
  usage: Usage | undefined;
  /** `usage` was not reported, or not to the end: the answer was broken off. */
  isUsageEstimated: boolean;
  finishReason: string;
  /** Parts of the request that its target's wire cannot express; empty for most. */
  dropped: readonly string[];
  metadata: Readonly<Record<string, string>>;
  traceId: string;
  spanId: string;
  parentSpanId: string;
  spanName: string;
  /** The sampled flag of the request's `traceparent`: its caller records the trace. Undefined without one. */
  sampled: boolean | undefined;
  /** Monotonic milliseconds; 0 = has not happened. */
  upstreamStartedAt: number;
  upstreamEndedAt: number;
  firstByteAt: number;
  firstTokenAt: number;
  /** The answer is a stream that goes on until one side leaves, and began at this time. Its length is no latency. */
  openSince: number;
  requestBytes: number;
  responseBytes: number;
}

/** Result of one hook of a guardrail. */
export interface Verdict {
  readonly name: string;
  readonly hook: 'request' | 'attempt' | 'attempted' | 'response' | 'stream';
  /**
   * `passed`, `changed` and `skipped` come from the plugin itself; `unknown`: it ended without a verdict; `refused`: it
   * threw a refusal; `flagged`: a check failed and the guardrail denies nothing; `failed`: it broke; `unfinished`: it had
   * not ended when the request did.
   */
  verdict: 'passed' | 'changed' | 'skipped' | 'flagged' | 'unknown' | 'refused' | 'failed' | 'unfinished';
  /** Milliseconds. */
  ms: number;
}

/** More than any request needs; a plan with many attempts judges each of them. */
const maxVerdicts = 64;

/** Notes a verdict of this request, which may still be filled in; `unfinished` until then. Those beyond 64 are not kept. */
export function noteVerdict(
  facts: RequestFacts,
  name: string,
  hook: Verdict['hook'],
  verdict: Verdict['verdict'] = 'unfinished',
): Verdict {
  const note: Verdict = { name, hook, verdict, ms: 0 };
  if (facts.verdicts.length < maxVerdicts) facts.verdicts = [...facts.verdicts, note];
  return note;
}

/** One attempt of a plan, for the decision trace. */
export interface AttemptRecord {
  /** Place of the target in its config. */
  readonly option: string;
  readonly provider: string;
  readonly model: string;
  /** Status that the client would have seen. */
  readonly status: number;
  /** The gateway's code, when the attempt brought no answer. */
  readonly error: string;
  /** Milliseconds after the request was accepted. */
  readonly startedMs: number;
  readonly endedMs: number;
  /** Nothing was served from it: another attempt followed, or won. */
  lost: boolean;
  /** Why the target was not asked at all; absent for one that was. */
  readonly skipped?: string | undefined;
}

const noAttempts: readonly AttemptRecord[] = Object.freeze([]);

const noVerdicts: readonly Verdict[] = Object.freeze([]);

const noneDropped: readonly string[] = Object.freeze([]);

const noMetadata: Readonly<Record<string, string>> = Object.freeze({});

/** The initial facts of a request. */
export function emptyFacts(): RequestFacts {
  return {
    organisationId: '',
    workspaceId: '',
    apiKeyId: '',
    userId: '',
    aiService: '',
    pricedBy: undefined,
    provider: '',
    upstreamHost: '',
    modelRequested: '',
    operation: '',
    mcpServer: '',
    mcpTool: '',
    answerFailed: false,
    modelAnswered: '',
    stream: false,
    config: '',
    configVersion: '',
    prompt: '',
    promptVersion: '',
    virtualKey: '',
    cacheStatus: '',
    attempts: 0,
    attemptRecords: noAttempts,
    lostCost: 0,
    decision: '',
    retries: 0,
    option: 'config',
    verdicts: noVerdicts,
    limits: noneDropped,
    resent: false,
    usage: undefined,
    isUsageEstimated: false,
    finishReason: '',
    dropped: noneDropped,
    metadata: noMetadata,
    traceId: '',
    spanId: '',
    parentSpanId: '',
    spanName: '',
    sampled: undefined,
    upstreamStartedAt: 0,
    upstreamEndedAt: 0,
    firstByteAt: 0,
    firstTokenAt: 0,
    openSince: 0,
    requestBytes: 0,
    responseBytes: 0,
  };
}

/** The minimum that W3C Baggage requires implementations to carry; the rest is not read. */
const maxMembers = 64;

const maxLength = 8192;

/** `baggage-octet`, where a `%` begins two hexadecimal digits. */
const value = /^(?:[!#$&-+\--:<-[\]-~]|%[0-9A-Fa-f]{2})*$/;

/**
 * Members of the header `baggage` of W3C Baggage: values percent-decoded, properties left out, members of another form
 * skipped, the last of equal names. At most the first 64, and those that end within 8192 bytes.
 */
export function readBaggage(header: string): ReadonlyMap<string, string> {
  const members = new Map<string, string>();
  const list = header.split(',');
  let end = -1;
  for (let i = 0; i < list.length && i < maxMembers; i++) {
    const item = list[i] as string;
    end += item.length + 1;
    if (end > maxLength) break;
    const [member = ''] = item.split(';', 1);
    const equals = member.indexOf('=');
    if (equals === -1) continue;
    const name = member.slice(0, equals).trim();
    const text = member.slice(equals + 1).trim();
    if (isHeaderName(name) && value.test(text)) members.set(name, decode(text));
  }
  return members;
}

/** Octets that are not UTF-8 become U+FFFD, as the standard requires. */
function decode(text: string): string {
  if (!text.includes('%')) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    const bytes = text.replace(/%([0-9A-Fa-f]{2})/g, (_, hex: string) =>
      String.fromCharCode(Number.parseInt(hex, 16)),
    );
    return Buffer.from(bytes, 'latin1').toString('utf8');
  }
}

/** Part of an `Exchange` that its trace is read from. */
interface TracedHeaders {
  readonly id: string;
  readonly method: string;
  readonly originalPath: string;
  readonly facts: RequestFacts;
  header(name: string): string | undefined;
  /** One of the gateway's own headers, without its prefix. */
  service(name: string): string | undefined;
  /** One of these that is neither true nor false, though it has to be. */
  wrongFlag(): string | undefined;
}

const maxIdLength = 255;

const maxMetadataKeys = 64;

const maxMetadataLength = 128;

/**
 * Takes trace ids and metadata from the headers: the service headers first, then W3C `traceparent` and `baggage`. A
 * request without a trace id is its own trace. One that came with a `traceparent` is a span of that trace, with an id
 * derived from the request's and the name `METHOD path` unless it names its own. Throws `invalid_header` for metadata
 * that is not an object of short strings, and for a boolean header of the gateway that is neither true nor false; faults
 * in the W3C headers are ignored, as the standards require.
 */
export function readTraceHeaders(exchange: TracedHeaders): void {
  const { facts } = exchange;
  const wrong = exchange.wrongFlag();
  if (wrong !== undefined) {
    const value = (exchange.service(wrong) ?? '').slice(0, 200);
    throw new GatewayError(
      'invalid_header',
      `The ${wrong} header is ${JSON.stringify(value)}. Send true or false, or leave it out.`,
      { param: wrong },
    );
  }
  const header = exchange.header('traceparent');
  const parent = header === undefined ? undefined : readTraceParent(header);
  facts.traceId = identifier(exchange, 'trace-id') ?? parent?.traceId ?? exchange.id;
  facts.sampled = parent?.sampled;
  facts.parentSpanId = identifier(exchange, 'parent-span-id') ?? parent?.parentId ?? '';
  const spanId = identifier(exchange, 'span-id');
  const spanName = identifier(exchange, 'span-name');
  facts.spanId = spanId ?? (parent === undefined ? '' : spanIdOfRequest(exchange.id));
  facts.spanName = spanName ?? (parent === undefined ? '' : nameOf(exchange));
  const metadata = exchange.service('metadata');
  if (metadata !== undefined) facts.metadata = parseMetadata(metadata);
  const baggage = exchange.header('baggage');
  if (baggage !== undefined) facts.metadata = withBaggage(facts.metadata, readBaggage(baggage));
}

function nameOf({ method, originalPath }: TracedHeaders): string {
  return `${method} ${originalPath}`.slice(0, maxIdLength);
}

/** The metadata header wins; a member that it could not hold is left out, and so are those beyond its bound. */
function withBaggage(
  metadata: RequestFacts['metadata'],
  baggage: ReadonlyMap<string, string>,
): RequestFacts['metadata'] {
  if (baggage.size === 0) return metadata;
  const merged: Record<string, string> = { ...metadata };
  let keys = Object.keys(merged).length;
  for (const [key, value] of baggage) {
    if (keys >= maxMetadataKeys) break;
    if (Object.hasOwn(merged, key) || key.length > maxMetadataLength || value.length > maxMetadataLength)
      continue;
    merged[key] = value;
    keys++;
  }
  return merged;
}

function identifier(exchange: TracedHeaders, name: string): string | undefined {
  const value = exchange.service(name);
  if (value === undefined || value === '') return undefined;
  if (value.length > maxIdLength) {
    throw new GatewayError('invalid_header', `The ${name} header is longer than ${maxIdLength} characters.`, {
      param: name,
    });
  }
  return value;
}

function parseMetadata(header: string): Record<string, string> {
  const refuse = (reason: string): GatewayError =>
    new GatewayError('invalid_header', `The metadata header ${reason} Send a JSON object of strings.`, {
      param: 'metadata',
    });
  let value: unknown;
  try {
    value = JSON.parse(header);
  } catch {
    throw refuse('is no valid JSON.');
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw refuse('is no JSON object.');
  const entries = Object.entries(value);
  if (entries.length > maxMetadataKeys) throw refuse(`has more than ${maxMetadataKeys} keys.`);
  const metadata: Record<string, string> = {};
  for (const [key, item] of entries) {
    if (typeof item === 'object' && item !== null)
      throw refuse(`holds an object or a list under "${key.slice(0, 64)}".`);
    const text = String(item);
    if (text.length > maxMetadataLength || key.length > maxMetadataLength) {
      throw refuse(`holds more than ${maxMetadataLength} characters under "${key.slice(0, 64)}".`);
    }
    if (key === '__proto__') throw refuse('holds "__proto__", which is no name for a value.');
    metadata[key] = text;
  }
  return metadata;
}
