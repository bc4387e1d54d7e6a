import type { JsonObject } from '../../pipeline/context.ts';
import type { BreakerInput, RouteConfigInput } from '../../organisation/route-config.ts';
import { inheritDestination, noDestination, type Destination } from './inherit-destination.ts';
import type { AttemptSettings } from './plan-node.ts';

/** What a node hands down to its targets. */
export interface Inherited {
  readonly destination: Destination;
  readonly defaults: JsonObject;
  readonly overrides: JsonObject;
  readonly drops: readonly string[];
  readonly retry: RouteConfigInput['retry'];
  readonly cache: RouteConfigInput['cache'];
  readonly requestTimeout: number | undefined;
  readonly firstTokenTimeout: number | undefined;
  readonly idleTimeout: number | undefined;
  readonly forwardHeaders: readonly string[];
  readonly strictOpenAiCompliance: boolean | undefined;
  readonly onDrop: AttemptSettings['onDrop'];
  readonly breaker: BreakerInput | undefined;
}

/** What the root of a config inherits. */
export const nothingInherited: Inherited = {
  destination: noDestination,
  defaults: {},
  overrides: {},
  drops: [],
  retry: undefined,
  cache: undefined,
  requestTimeout: undefined,
  firstTokenTimeout: undefined,
  idleTimeout: undefined,
  forwardHeaders: [],
  strictOpenAiCompliance: undefined,
  onDrop: undefined,
  breaker: undefined,
};

/**
 * The settings of a node: its own, and what it does not say from its parent. Parameters are merged, paths to drop
 * added up; everything else is replaced whole. Hedging is not among them: it belongs to its node alone.
 */
export function inheritSettings(parent: Inherited, own: RouteConfigInput): Inherited {
  return {
    destination: inheritDestination(parent.destination, own),
    defaults: merged(parent.defaults, own.default_params),
    overrides: merged(parent.overrides, own.override_params),
    drops: own.drop_params === undefined ? parent.drops : [...new Set([...parent.drops, ...own.drop_params])],
    retry: own.retry ?? parent.retry,
    cache: own.cache ?? parent.cache,
    requestTimeout: own.request_timeout ?? parent.requestTimeout,
    firstTokenTimeout: own.first_token_timeout ?? parent.firstTokenTimeout,
    idleTimeout: own.idle_timeout ?? parent.idleTimeout,
    forwardHeaders: own.forward_headers?.map((name) => name.toLowerCase()) ?? parent.forwardHeaders,
    strictOpenAiCompliance: own.strict_open_ai_compliance ?? parent.strictOpenAiCompliance,
    onDrop: own.on_drop ?? parent.onDrop,
    breaker: own.cb_config ?? own.strategy?.cb_config ?? parent.breaker,
  };
}

function merged(parent: JsonObject, own: JsonObject | undefined): JsonObject {
  return own === undefined ? parent : { ...parent, ...own };
}
