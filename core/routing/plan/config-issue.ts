import { providerFields } from '../../providers/provider-fields.ts';
import { guardrailKeys, type RouteConfigInput } from '../../organisation/route-config.ts';
import { providerFieldsOf } from './inherit.ts';

const secretFields = providerFields.filter(({ secret }) => secret).map(({ name }) => name);

/** The places of credentials in a config, each with what to do instead: a config that is saved is shown to many. */
export function heldSecrets(
  config: RouteConfigInput,
  place: ConfigPlace = [],
): readonly { readonly path: string; readonly message: string }[] {
  const fields = providerFieldsOf(config);
  const held: string[] = secretFields.filter((name) => fields[name] !== undefined);
  if (config.api_key !== undefined) held.unshift('api_key');
  return [
    ...heldInGuardrails(config, place),
    ...held.map((name) => ({
      path: placeText([...place, name]),
      message: 'a saved config holds no credentials; save them as a provider, and name it in "virtual_key"',
    })),
    ...(config.targets ?? []).flatMap((target, index) => heldSecrets(target, [...place, 'targets', index])),
  ];
}

/** The same of guardrails that are written out. */
function heldInGuardrails(
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
        .filter(([, parameters]) => Object.hasOwn(Object(parameters) as object, 'credentials'))
        .map(([at]) => ({
          path: placeText([...place, key, index, ...at, 'credentials']),
          message: 'a saved config holds no credentials; store the guardrail, and name it here',
        }));
    }),
  );
}

function parametersOf(check: unknown): unknown {
  return typeof check === 'object' && check !== null && 'parameters' in check ? check.parameters : undefined;
}

/** Where in a config something stands: `['targets', 1, 'provider']`. */
export type ConfigPlace = readonly (string | number)[];

/** Something wrong in what a config means. */
export interface ConfigIssue {
  /** For people: `config.targets[1].provider`. */
  readonly path: string;
  /** Without a full stop. */
  readonly message: string;
  /** The same place for programs, without the leading `config`. */
  readonly place: ConfigPlace;
  /** The config that it is in, when that is another one that is referred to; `place` is then the reference. */
  readonly within: string | undefined;
}

/** No reader takes in more at once, and a hostile config may have thousands. */
const maxIssues = 100;

/** Collects what is wrong with one config; what is beyond 100 is left out. */
export class ConfigIssues {
  readonly found: ConfigIssue[] = [];

  add(place: ConfigPlace, message: string, within?: string): void {
    if (this.found.length < maxIssues)
      this.found.push({ path: placeText(place), message: message.replace(/\.$/, ''), place, within });
  }
}

const plainName = /^[A-Za-z_$][\w$-]*$/;

/** A place as people write it: `config.targets[1].metadata["a.b"]`. */
export function placeText(place: ConfigPlace): string {
  let text = 'config';
  for (const part of place) {
    if (typeof part === 'number') text += `[${part}]`;
    else text += plainName.test(part) ? `.${part}` : `[${JSON.stringify(part)}]`;
  }
  return text;
}
