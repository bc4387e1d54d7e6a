import type { Exchange } from '../pipeline/exchange.ts';
import type { RouteOptions, TryOptions } from '../pipeline/router.ts';
import type { PlanLeaf } from './plan/plan-node.ts';
import { readRoutingHeaders } from './request-headers.ts';

/** By target, for the plugin's options with which it was tried last: nearly always there is one plugin. */
const merged = new WeakMap<PlanLeaf, { readonly options: RouteOptions; readonly made: TryOptions }>();

/**
 * The plugin's options with what the target's settings say instead, and what the request's own headers say instead of
 * both. Throws `invalid_header`.
 */
export function tryOptionsOf(
  exchange: Exchange,
  leaf: PlanLeaf | undefined,
  options: RouteOptions,
): TryOptions {
  const base = leaf === undefined ? options : leafOptions(leaf, options);
  const said = readRoutingHeaders(exchange);
  const { requestTimeoutMs, forwardHeaders, sensitiveHeaders } = said;
  const isSilent = requestTimeoutMs === undefined && forwardHeaders.length + sensitiveHeaders.length === 0;
  if (isSilent) return base;
  const limit = requestTimeoutMs ?? base.requestTimeoutMs;
  return {
    ...base,
    requestTimeoutMs: limit,
    headTimeoutMs: longEnough(base.headTimeoutMs, limit),
    forwardHeaders: forwardHeaders.length > 0 ? forwardHeaders : base.forwardHeaders,
    sensitiveHeaders,
  };
}

function leafOptions(leaf: PlanLeaf, options: RouteOptions): TryOptions {
  const known = merged.get(leaf);
  if (known?.options === options) return known.made;
  const { settings } = leaf;
  const requestTimeoutMs = settings.requestTimeoutMs ?? options.requestTimeoutMs;
  const made: TryOptions = {
    ...options,
    requestTimeoutMs,
    headTimeoutMs: longEnough(options.headTimeoutMs, requestTimeoutMs),
    firstTokenTimeoutMs: settings.firstTokenTimeoutMs ?? options.firstTokenTimeoutMs,
    idleTimeoutMs: settings.idleTimeoutMs ?? options.idleTimeoutMs,
    strictOpenAiCompliance: settings.strictOpenAiCompliance ?? options.strictOpenAiCompliance,
    configOnDrop: settings.onDrop,
    forwardHeaders: settings.forwardHeaders,
  };
  merged.set(leaf, { options, made });
  return made;
}

/** Who allows a whole try more time than its head would get means the head, too. */
function longEnough(headTimeoutMs: number, requestTimeoutMs: number): number {
  return headTimeoutMs === 0 ? 0 : Math.max(headTimeoutMs, requestTimeoutMs);
}
