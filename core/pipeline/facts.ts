import type { Usage } from '../dialects/usage.ts';
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
