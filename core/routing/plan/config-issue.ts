import { parseJson } from '../../base/json.ts';
import { isSecretName } from '../../config/ajv.ts';
import { providerFields } from '../../providers/provider-fields.ts';
import { guardrailKeys, type RouteConfigInput } from '../../organisation/route-config.ts';
import { providerFieldsOf } from './inherit.ts';

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

/** A place in a config: `['targets', 1, 'provider']`. */
export type ConfigPlace = readonly (string | number)[];

/** A semantic issue of a config. */
export interface ConfigIssue {
  /** Readable place: `config.targets[1].provider`. */
  readonly path: string;
  /** Without a full stop. */
  readonly message: string;
  /** The same place for programs, without the leading `config`. */
  readonly place: ConfigPlace;
  /** Name of the referenced config that contains the issue; `place` is then the reference. */
  readonly within: string | undefined;
}

/** Upper bound of reported issues; a hostile config may have thousands. */
const maxIssues = 100;

/** Collects the issues of one config, at most 100. */
export class ConfigIssues {
  readonly found: ConfigIssue[] = [];

  add(place: ConfigPlace, message: string, within?: string): void {
    if (this.found.length < maxIssues)
      this.found.push({ path: placeText(place), message: message.replace(/\.$/, ''), place, within });
  }
}

const plainName = /^[A-Za-z_$][\w$-]*$/;

/** A place in readable form: `config.targets[1].metadata["a.b"]`. */
export function placeText(place: ConfigPlace): string {
  let text = 'config';
  for (const part of place) {
    if (typeof part === 'number') text += `[${part}]`;
    else text += plainName.test(part) ? `.${part}` : `[${JSON.stringify(part)}]`;
  }
  return text;
}
