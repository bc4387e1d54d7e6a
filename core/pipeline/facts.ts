import type { Usage } from '../dialects/usage.ts';

/** What has become known of a request on its way. The pipeline, the router and plugins fill it in; `settled` reads it. */
export interface RequestFacts {
  organisationId: string;
  workspaceId: string;
  apiKeyId: string;
  userId: string;
  /** Kind of provider (`openai`), for analytics and prices. */
  aiService: string;
  /** As addressed: row name, YAML provider or slug. */
  provider: string;
  upstreamHost: string;
  modelRequested: string;
  modelAnswered: string;
  stream: boolean;
  config: string;
  prompt: string;
  virtualKey: string;
  cacheStatus: string;
  attempts: number;
  resent: boolean;
  usage: Usage | undefined;
  finishReason: string;
  /** What the request asked for and its target's wire cannot say; empty for most. */
  dropped: readonly string[];
  metadata: Readonly<Record<string, string>>;
  traceId: string;
  spanId: string;
  parentSpanId: string;
  spanName: string;
  /** Monotonic milliseconds; 0 = has not happened. */
  upstreamStartedAt: number;
  upstreamEndedAt: number;
  firstByteAt: number;
  firstTokenAt: number;
  requestBytes: number;
  responseBytes: number;
}

const noneDropped: readonly string[] = Object.freeze([]);
const noMetadata: Readonly<Record<string, string>> = Object.freeze({});

/** The facts of a request of which nothing is known yet. */
export function emptyFacts(): RequestFacts {
  return {
    organisationId: '',
    workspaceId: '',
    apiKeyId: '',
    userId: '',
    aiService: '',
    provider: '',
    upstreamHost: '',
    modelRequested: '',
    modelAnswered: '',
    stream: false,
    config: '',
    prompt: '',
    virtualKey: '',
    cacheStatus: '',
    attempts: 0,
    resent: false,
    usage: undefined,
    finishReason: '',
    dropped: noneDropped,
    metadata: noMetadata,
    traceId: '',
    spanId: '',
    parentSpanId: '',
    spanName: '',
    upstreamStartedAt: 0,
    upstreamEndedAt: 0,
    firstByteAt: 0,
    firstTokenAt: 0,
    requestBytes: 0,
    responseBytes: 0,
  };
}
