// Settings of one node of a config: what it inherits, and what may be written in it.
import { quoted } from '../../base/did-you-mean.ts';
import { parseJson } from '../../base/json.ts';
import { isSecretName } from '../../config/ajv.ts';
import { providerFieldAliases, providerFields, templateValue } from '../../providers/provider-fields.ts';
import { type BreakerInput, type RouteConfigInput, guardrailKeys } from '../../organisation/route-config.ts';
import { refusedForwardName } from '../forward-headers.ts';
import { type KnowsProvider, type ConfigPlace, placeText } from './read-config.ts';
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
const noDestination: Destination = {
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
interface Destination {
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
function providerFieldsOf(own: RouteConfigInput): Record<string, string> {
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
function chosenDeployments({
  deployments = [],
}: RouteConfigInput): NonNullable<RouteConfigInput['deployments']> {
  const marked = deployments.filter((deployment) => deployment.is_default === true);
  return marked.length > 0 ? marked : deployments;
}

/** Reports an issue with its place within the node. */
export type Refuse = (place: ConfigPlace, message: string) => void;

/** Context for the checks of a node's keys. */
interface NodeRules {
  readonly knowsProvider: KnowsProvider;
  /** Prefixes of the gateway's own headers, each with its dash. Default none. */
  readonly servicePrefixes?: readonly string[];
}

/** Checks the keys of one node, without its strategy and its targets. */
export function checkNode(
  own: RouteConfigInput,
  { knowsProvider, servicePrefixes }: NodeRules,
  refuse: Refuse,
): void {
  if (own.prompt_id !== undefined)
    refuse(['prompt_id'], 'prompts in configs are not served yet; remove the key and send the messages');
  checkProviders(own, knowsProvider, refuse);
  checkFields(own, refuse);
  own.forward_headers?.forEach((name, index) => {
    const reason = refusedForwardName(name, servicePrefixes);
    if (reason !== undefined) refuse(['forward_headers', index], `${quoted(name)} cannot be here: ${reason}`);
  });
}

function checkProviders(own: RouteConfigInput, knowsProvider: KnowsProvider, refuse: Refuse): void {
  const named: [key: string, provider: LeafProvider][] = [];
  if (own.provider !== undefined) named.push(['provider', { name: own.provider, kind: 'provider' }]);
  if (own.virtual_key !== undefined)
    named.push(['virtual_key', { name: own.virtual_key, kind: 'virtual-key' }]);
  for (const [key, provider] of named) {
    const problem = knowsProvider(provider);
    if (problem !== undefined) refuse([key], problem);
    if (own.passthrough === true)
      refuse([key], 'a target that passes through takes its provider from the request; remove one of them');
  }
}

function checkFields(own: RouteConfigInput, refuse: Refuse): void {
  const values = providerFieldsOf(own);
  for (const [alias, name] of Object.entries(providerFieldAliases)) {
    const written = (own as Readonly<Record<string, unknown>>)[alias];
    if (written !== undefined && written !== values[name])
      refuse([alias], `"${alias}" and "${name}" are the same field with two values; keep one`);
  }
  for (const { name, template } of providerFields) {
    const value = values[name];
    if (template && value !== undefined && !templateValue.test(value))
      refuse(
        [name],
        'it may hold letters, digits and hyphens, 63 at the most: it becomes part of an address',
      );
  }
  if (chosenDeployments(own).length > 1)
    refuse(
      ['deployments'],
      'choosing among deployments by the model of a request is not served yet; mark one with "is_default", or write one target for each and a conditional strategy over params.model',
    );
}

/** Checks the destination of a target, with its inherited parts. */
export function checkDestination({ provider, apiKey, customHost }: Destination, refuse: Refuse): void {
  if (apiKey === undefined) return;
  if (provider === undefined) {
    if (customHost === undefined)
      refuse(['api_key'], 'the credential has no provider: name the one that it is for in "provider"');
  } else if (provider.kind === 'virtual-key' || provider.name.startsWith('@'))
    refuse(
      ['api_key'],
      `${quoted(provider.name)} has a credential of its own, which is always used; remove "api_key"`,
    );
}

const secretFields = providerFields.filter(({ secret }) => secret).map(({ name }) => name);

/** Places of credentials in a config, each with the remedy: many users can read a saved config. */
export function secretsInConfig(
  config: RouteConfigInput,
  place: ConfigPlace = [],
): readonly { readonly path: string; readonly message: string }[] {
  const fields = providerFieldsOf(config);
  const held: string[] = secretFields.filter((name) => fields[name] !== undefined);
  if (config.api_key !== undefined) held.unshift('api_key');
  return [
    ...secretsInGuardrails(config, place),
    ...held.map((name) => ({
      path: placeText([...place, name]),
      message: 'a saved config holds no credentials; save them as a provider, and name it in "virtual_key"',
    })),
    ...(config.targets ?? []).flatMap((target, index) =>
      secretsInConfig(target, [...place, 'targets', index]),
    ),
  ];
}

/** Places of credentials in inline guardrails. */
function secretsInGuardrails(
  config: RouteConfigInput,
  place: ConfigPlace,
): readonly { readonly path: string; readonly message: string }[] {
  return guardrailKeys.flatMap(([key]) =>
    (config[key] ?? []).flatMap((guardrail, index) => {
      if (typeof guardrail === 'string') return [];
      const { checks } = guardrail;
      const written = Array.isArray(checks)
        ? checks.map((check: unknown, at) => [['checks', at, 'parameters'], parametersOf(check)] as const)
        : Object.entries(guardrail).map(([name, parameters]) => [[name], parameters] as const);
      return written
        .flatMap(([at, parameters]) => secretsIn(parameters).map((name) => [...at, name]))
        .map((at) => ({
          path: placeText([...place, key, index, ...at]),
          message: 'a saved config holds no credentials; store the guardrail, and name it here',
        }));
    }),
  );
}

/** Names of the parameters that hold credentials: of headers, those that are known to. */
function secretsIn(parameters: unknown): readonly string[] {
  const { credentials, headers } = Object(parameters) as Readonly<Record<string, unknown>>;
  const given: unknown = typeof headers === 'string' ? parseJson(headers) : headers;
  const isSecret = Object.keys(Object(given) as object).some(isSecretName);
  return [...(credentials === undefined ? [] : ['credentials']), ...(isSecret ? ['headers'] : [])];
}

function parametersOf(check: unknown): unknown {
  return typeof check === 'object' && check !== null && 'parameters' in check ? check.parameters : undefined;
}
