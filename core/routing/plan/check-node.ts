import { quoted } from '../../base/did-you-mean.ts';
import { providerFieldAliases, providerFields, templateValue } from '../../providers/provider-fields.ts';
import type { RouteConfigInput } from '../../organisation/route-config.ts';
import { refusedForwardName } from '../forward-headers.ts';
import type { ConfigPlace } from './config-issue.ts';
import { chosenDeployments, providerFieldsOf, type Destination } from './inherit.ts';
import type { LeafProvider } from './plan-node.ts';
import type { KnowsProvider } from './config-names.ts';

/** Reports an issue with its place within the node. */
export type Refuse = (place: ConfigPlace, message: string) => void;

/** Keys that affect neither the target of a request nor its attempts. */
const keysWithoutEffect: ReadonlySet<string> = new Set(['name', 'weight', 'fetch_integrated_models']);

/** True when a config has no effect and could be omitted. */
export function hasNoEffect(config: RouteConfigInput): boolean {
  return !Object.entries(config).some(([key, value]) => value !== undefined && !keysWithoutEffect.has(key));
}

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
