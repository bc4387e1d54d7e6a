import { parseArgs } from 'node:util';

/** Where the store of a command is found. */
export interface StorePlace {
  readonly config: string | undefined;
  readonly data: string;
}

/** `weir export`, `weir import`, `weir audit verify`, `weir rotate-secrets`. */
export type AdministrationCommand =
  | (StorePlace & {
      readonly name: 'export';
      /** Undefined: standard output. */
      readonly out: string | undefined;
      /** Undefined: all of them. */
      readonly organisation: string | undefined;
    })
  | (StorePlace & { readonly name: 'import'; readonly file: string; readonly replace: boolean })
  | (StorePlace & { readonly name: 'rotate-secrets' })
  | (StorePlace & { readonly name: 'audit'; readonly organisation: string | undefined });

const common = `  The store is the one of storage.resources: [--config FILE] (WEIR_CONFIG), and for the embedded one [--data DIR]
  (WEIR_DATA), which no gateway may be using meanwhile. A PostgreSQL server is used beside its gateways.`;

/** The help of each of them. */
export const administrationUsage = {
  export: `weir export: what the store holds as YAML, without its audit trails

  weir export [--out FILE] [--organisation ID]

  Organisations with their settings, workspaces, users, members, keys, pending invites and group mappings, and all
  records (configs, integrations, prompts …) with their versions. Of keys there are only hashes; secrets of records
  are sealed as they are stored. What the configuration file owns is not in it.

${common}`,
  import: `weir import: puts what weir export wrote into the store

  weir import FILE [--replace]

  What is not there is added under its own id; what is there and says the same is left alone, so that an import can be
  repeated. What differs is named and stays as it is, and import ends with 1; --replace overwrites it. Each
  organisation is one transaction with an entry of its audit trail: a mistake in it leaves nothing of it behind.
  Secrets of records need the key that they were sealed with: in WEIR_SECRET_KEY, WEIR_SECRET_KEY_PREVIOUS or the key
  file of the data folder.

${common}`,
  audit: `weir audit verify: reads every audit trail, and names the first record that is not as it was written

  weir audit verify [--organisation ID]

  Finds records that were changed, removed, moved or added, and ends that were cut off; ends with 1 then.

${common}`,
  'rotate-secrets': `weir rotate-secrets: seals every stored secret with the present key

  weir rotate-secrets

  Without WEIR_SECRET_KEY, a new key is made in the data folder, which no gateway may be using meanwhile; the one before
  is dropped when nothing is sealed with it any more. With WEIR_SECRET_KEY, give the new key there and the old ones in
  WEIR_SECRET_KEY_PREVIOUS, to every gateway first and then to this command. It can be repeated, and goes on where it
  was interrupted.

${common}`,
} as const;

/** Reads what follows the command. Throws an error with the reason for anything unclear. */
export function readAdministrationArguments(
  name: AdministrationCommand['name'],
  args: readonly string[],
  defaults: StorePlace,
): AdministrationCommand {
  const text = { type: 'string' } as const;
  const place = { config: text, data: text };
  const placeOf = (values: { config?: string; data?: string }): StorePlace => ({
    config: values.config ?? defaults.config,
    data: values.data ?? defaults.data,
  });
  if (name === 'export') {
    const { values } = parseArgs({ args: [...args], options: { ...place, out: text, organisation: text } });
    return { name, ...placeOf(values), out: values.out, organisation: values.organisation };
  }
  if (name === 'rotate-secrets') {
    const { values } = parseArgs({ args: [...args], options: place });
    return { name, ...placeOf(values) };
  }
  if (name === 'audit') {
    const [action, ...rest] = args;
    if (action !== 'verify') throw new Error(`There is no command "audit ${action}".`);
    const { values } = parseArgs({ args: rest, options: { ...place, organisation: text } });
    return { name, ...placeOf(values), organisation: values.organisation };
  }
  const { values, positionals } = parseArgs({
    args: [...args],
    options: { ...place, replace: { type: 'boolean' } },
    allowPositionals: true,
  });
  const [file, ...more] = positionals;
  if (file === undefined || more.length > 0) throw new Error('weir import takes one file.');
  return { name, ...placeOf(values), file, replace: values.replace ?? false };
}
