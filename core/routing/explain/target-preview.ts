import { GatewayError } from '../../errors/gateway-error.ts';
import { ChangedBody } from '../../pipeline/attempt-body.ts';
import type { JsonValue } from '../../pipeline/context.ts';
import type { Exchange } from '../../pipeline/exchange.ts';
import type { Target } from '../../pipeline/router.ts';
import { applyParams } from '../apply-params.ts';
import type { PlanLeaf } from '../plan/plan-node.ts';
import { readRoutingHeaders } from '../request-headers.ts';

/** How the tries at one target would be made. Holds no credential. */
export interface TargetPreview {
  /** As addressed; empty when it cannot be told. */
  readonly provider: string;
  /** Address of the provider without credentials: `https://api.openai.com/v1`. */
  readonly host: string;
  readonly model: string;
  /** What the config changes in this request's body. */
  readonly params: ParamPreview;
  /** Milliseconds; undefined leaves it to the options of the `provider` plugin. */
  readonly requestTimeoutMs: number | undefined;
  readonly firstTokenTimeoutMs: number | undefined;
  readonly idleTimeoutMs: number | undefined;
  readonly retry: PlanLeaf['settings']['retry'];
  readonly cache: PlanLeaf['settings']['cache'];
  readonly breaker: PlanLeaf['breaker'];
  /** Why there would be no try. */
  readonly problem: string | undefined;
}

/** Changed members by name, and paths of removed ones. */
export interface ParamPreview {
  readonly set: Readonly<Record<string, JsonValue>>;
  readonly removed: readonly string[];
}

/** Works out one target of a request whose body is in memory. `targetOf` throws what keeps the target from being made. */
export function previewTarget(
  exchange: Exchange,
  leaf: PlanLeaf,
  targetOf: (exchange: Exchange, leaf: PlanLeaf) => Target,
): TargetPreview {
  const { settings, breaker } = leaf;
  const { retry, cache, firstTokenTimeoutMs, idleTimeoutMs } = settings;
  const { path } = exchange;
  try {
    const { params, model } = edited(exchange, leaf);
    const preview = {
      ...{ params, model, firstTokenTimeoutMs, idleTimeoutMs, retry, cache, breaker },
      requestTimeoutMs: settings.requestTimeoutMs,
    };
    try {
      const said = readRoutingHeaders(exchange).requestTimeoutMs;
      const { provider, origin, basePath } = targetOf(exchange, leaf);
      const requestTimeoutMs = said ?? settings.requestTimeoutMs;
      return { ...preview, requestTimeoutMs, provider, host: origin + basePath, problem: undefined };
    } catch (error) {
      if (!GatewayError.is(error)) throw error;
      return { ...preview, provider: leaf.provider?.name ?? '', host: '', problem: error.message };
    }
  } finally {
    // A model that the client's wire names in the path was put there.
    exchange.path = path;
  }
}

function edited(exchange: Exchange, leaf: PlanLeaf): { params: ParamPreview; model: string } {
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
