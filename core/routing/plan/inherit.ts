import { providerFieldAliases, providerFields } from '../../providers/provider-fields.ts';
import type { BreakerInput, RouteConfigInput } from '../../organisation/route-config.ts';
import type { AttemptSettings, LeafProvider } from './plan-node.ts';
import type { JsonObject } from '../../pipeline/context.ts';
import type { GuardrailSpecs } from '../../ports/guardrails.ts';

/** Settings that the targets of a node inherit. */
export interface Inherited {
  readonly destination: Destination;
  readonly defaults: JsonObject;
  readonly overrides: JsonObject;
  readonly drops: readonly string[];
  readonly modelPrefix: RouteConfigInput['model_prefix'];
  readonly retry: RouteConfigInput['retry'];
  readonly cache: RouteConfigInput['cache'];
  readonly requestTimeout: number | undefined;
  readonly firstTokenTimeout: number | undefined;
  readonly idleTimeout: number | undefined;
  readonly forwardHeaders: readonly string[];
  readonly strictOpenAiCompliance: boolean | undefined;
  readonly onDrop: AttemptSettings['onDrop'];
  readonly breaker: BreakerInput | undefined;
  readonly guardrails: GuardrailSpecs;
}

/** A destination that the request determines. */
export const noDestination: Destination = {
  provider: undefined,
  apiKey: undefined,
  customHost: undefined,
  hostIsGeneral: false,
  fields: {},
};

/** Inherited settings of the root of a config. */
export const nothingInherited: Inherited = {
  destination: noDestination,
  defaults: {},
  overrides: {},
  drops: [],
  modelPrefix: undefined,
  retry: undefined,
  cache: undefined,
  requestTimeout: undefined,
  firstTokenTimeout: undefined,
  idleTimeout: undefined,
  forwardHeaders: [],
  strictOpenAiCompliance: undefined,
  onDrop: undefined,
  breaker: undefined,
  guardrails: { input: [], output: [] },
};

/**
 * The settings of a node: its own, and the others from its parent. Parameters are merged, paths to drop are combined;
 * every other setting is replaced as a whole. Hedging is not inherited. `guardrails`: the node's own, for the phases
 * that it sets.
 */
export function inheritSettings(
  parent: Inherited,
  own: RouteConfigInput,
  guardrails: Partial<GuardrailSpecs> = {},
): Inherited {
  const { input = parent.guardrails.input, output = parent.guardrails.output } = guardrails;
  return {
    destination: inheritDestination(parent.destination, own),
    defaults: merged(parent.defaults, own.default_params),
    overrides: merged(parent.overrides, own.override_params),
    drops: own.drop_params === undefined ? parent.drops : [...new Set([...parent.drops, ...own.drop_params])],
    modelPrefix: own.model_prefix ?? parent.modelPrefix,
    retry: own.retry ?? parent.retry,
    cache: own.cache ?? parent.cache,
    requestTimeout: own.request_timeout ?? parent.requestTimeout,
    firstTokenTimeout: own.first_token_timeout ?? parent.firstTokenTimeout,
    idleTimeout: own.idle_timeout ?? parent.idleTimeout,
    forwardHeaders: own.forward_headers?.map((name) => name.toLowerCase()) ?? parent.forwardHeaders,
    strictOpenAiCompliance: own.strict_open_ai_compliance ?? parent.strictOpenAiCompliance,
    onDrop: own.on_drop ?? parent.onDrop,
    breaker: own.cb_config ?? own.strategy?.cb_config ?? parent.breaker,
    guardrails: { input, output },
  };
}

function merged(parent: JsonObject, own: JsonObject | undefined): JsonObject {
  return own === undefined ? parent : { ...parent, ...own };
}

/** Provider, credential and address of a node: they are inherited together or not at all. */
export interface Destination {
  readonly provider: LeafProvider | undefined;
  readonly apiKey: string | undefined;
  readonly customHost: string | undefined;
  /** The custom host was set without a provider, so it applies to the providers of all targets below. */
  readonly hostIsGeneral: boolean;
  readonly fields: Readonly<Record<string, string>>;
}

/** A node with its own provider does not inherit a credential, which belongs to another provider's host. */
function inheritDestination(parent: Destination, own: RouteConfigInput): Destination {
  const provider = providerOf(own);
  const isOwn = provider !== undefined || own.passthrough === true;
  const effective = isOwn ? provider : parent.provider;
  const fields = providerFieldsOf(own);
  const keepsHost = !isOwn || parent.hostIsGeneral;
  const host =
    own.custom_host === undefined
      ? {
          customHost: keepsHost ? parent.customHost : undefined,
          hostIsGeneral: keepsHost && parent.hostIsGeneral,
        }
      : { customHost: own.custom_host, hostIsGeneral: effective === undefined };
  return {
    ...host,
    provider: effective,
    apiKey: own.api_key ?? (isOwn ? undefined : parent.apiKey),
    fields: isOwn ? fields : { ...parent.fields, ...fields },
  };
}

/** The node's own provider; a virtual key takes precedence. */
function providerOf(own: RouteConfigInput): LeafProvider | undefined {
  if (own.virtual_key !== undefined) return { name: own.virtual_key, kind: 'virtual-key' };
  return own.provider === undefined ? undefined : { name: own.provider, kind: 'provider' };
}

/** The node's own provider fields, by their names. */
export function providerFieldsOf(own: RouteConfigInput): Record<string, string> {
  const fields: Record<string, string> = {};
  const [deployment] = chosenDeployments(own);
  if (deployment !== undefined) {
    fields['azure_deployment_id'] = deployment.deployment_id;
    fields['azure_api_version'] = deployment.api_version;
  }
  for (const [alias, name] of Object.entries(providerFieldAliases)) {
    const value = (own as Readonly<Record<string, unknown>>)[alias];
    if (typeof value === 'string') fields[name] = value;
  }
  for (const { name } of providerFields) {
    const value = own[name];
    if (value !== undefined) fields[name] = value;
  }
  return fields;
}

/** The deployment to use: the one marked as default, else all of them. More than one is an error of the config. */
export function chosenDeployments({
  deployments = [],
}: RouteConfigInput): NonNullable<RouteConfigInput['deployments']> {
  const marked = deployments.filter((deployment) => deployment.is_default === true);
  return marked.length > 0 ? marked : deployments;
}
