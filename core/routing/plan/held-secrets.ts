import { providerFields } from '../../providers/provider-fields.ts';
import type { RouteConfigInput } from '../../organisation/route-config.ts';
import { placeText, type ConfigPlace } from './config-issue.ts';
import { providerFieldsOf } from './inherit-destination.ts';

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
    ...held.map((name) => ({
      path: placeText([...place, name]),
      message: 'a saved config holds no credentials; save them as a provider, and name it in "virtual_key"',
    })),
    ...(config.targets ?? []).flatMap((target, index) => heldSecrets(target, [...place, 'targets', index])),
  ];
}
