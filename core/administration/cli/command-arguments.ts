import { parseArgs } from 'node:util';
import { type JournalTable, journalTables } from '../../ports/journal.ts';
import { listWords, quoted } from '../../base/did-you-mean.ts';
import { type Biller, billers, isDay } from '../costs/billed-costs.ts';

/** `weir journal …`. */
export type JournalCommand =
  | {
      readonly name: 'journal';
      readonly action: 'status' | 'verify';
      readonly data: string;
      readonly json: boolean;
    }
  | {
      readonly name: 'journal';
      readonly action: 'replay';
      readonly data: string;
      readonly json: boolean;
      readonly config: string | undefined;
      /** Replays everything in the journal's quarantine, instead of files. */
      readonly quarantine: boolean;
      readonly files: readonly string[];
      readonly table: JournalTable | undefined;
    };

const journalUsage = `weir journal: log rows on disk that wait for the analytics store

  weir journal status [--data DIR] [--json]    print segments, rows, bytes, the oldest row, quarantine, the size limit
                                               and its effects (shed rows, blocked requests); read-only
  weir journal verify [--data DIR] [--json]    read every row, print each bad one as FILE:OFFSET; read-only
  weir journal replay --quarantine             put the rows of the quarantine back
  weir journal replay FILE...                  put rows of files back, one JSON object in each line
      [--table requests|bodies|feedback] [--data DIR] [--config FILE] [--json]

  status and verify work with and without a running gateway. verify ends with 1 if a row is bad.

  Use replay for rows that the store refused, after the cause is removed: the schema is up to date, or the rows in the
  files of the quarantine are repaired. It refuses to run while a gateway uses the folder, because only one process may
  write there. The rows become new segments, which the next start of the gateway ships.

  No row is stored twice: replay asks the store for every id first, independently of its deduplication, and skips ids
  that already wait in the journal, so you can repeat an interrupted replay. A file of the quarantine is removed when all
  its rows are back or known; your own files stay. A row that cannot go back (no JSON, no UUID as id, no created_at) is
  printed as FILE:OFFSET and stays in its file; replay then ends with 1.

  The table of a row comes from its quarantine entry, from --table, or from a file name that begins with requests-,
  bodies- or feedback-. WEIR_DATA and WEIR_CONFIG name the data folder and the configuration.`;

function readJournalArguments(args: readonly string[], defaults: StorePlace): JournalCommand {
  const [action, ...rest] = args;
  const shared = { data: { type: 'string' }, json: { type: 'boolean' } } as const;
  if (action === 'status' || action === 'verify') {
    const { values } = parseArgs({ args: rest, options: shared });
    return { name: 'journal', action, data: values.data ?? defaults.data, json: values.json ?? false };
  }
  if (action !== 'replay') throw new Error(`There is no command "journal ${action}".`);
  const { values, positionals: files } = parseArgs({
    args: rest,
    options: {
      ...shared,
      config: { type: 'string' },
      quarantine: { type: 'boolean' },
      table: { type: 'string' },
    },
    allowPositionals: true,
  });
  const { quarantine = false, table } = values;
  if (quarantine === files.length > 0) {
    throw new Error('weir journal replay takes either --quarantine or files.');
  }
  const known = journalTables.find((one) => one === table);
  if (table !== undefined && known === undefined) {
    throw new Error(`There is no table "${table}": it is requests, bodies or feedback.`);
  }
  return {
    name: 'journal',
    action,
    data: values.data ?? defaults.data,
    json: values.json ?? false,
    config: values.config ?? defaults.config,
    quarantine,
    files,
    table: known,
  };
}

/** `weir explain …`. */
export interface ExplainCommand {
  readonly name: 'explain';
  /** Slug of a config, a file with one, or one as JSON. */
  readonly config: string;
  /** File with the request. */
  readonly request: string;
  /** The gateway's configuration; undefined for the default one. */
  readonly file: string | undefined;
  readonly json: boolean;
}

const explainUsage = `weir explain: shows how a config routes a request, without sending anything

  weir explain --config X --request FILE [--file CONFIGURATION] [--json]

  X is the name of a config under "configs:", a file with a config (JSON or YAML), or a config as JSON.
  FILE contains the request as JSON: { "method": "POST", "path": "/v1/chat/completions", "headers": {}, "body": {} };
  all members are optional, and x-service-metadata may be an object.
  CONFIGURATION is the gateway's file; default: gateway.config.yaml or WEIR_CONFIG.

  Prints the decision of each branch with its reason, the order of attempts with their settings, and the next target after
  a failure. Ends with 1 if the config, the configuration or the request cannot be used.`;

function readExplainArguments(args: readonly string[], { config: file }: StorePlace): ExplainCommand {
  const { values } = parseArgs({
    args: [...args],
    options: {
      config: { type: 'string' },
      request: { type: 'string' },
      file: { type: 'string' },
      json: { type: 'boolean' },
    },
  });
  const { config, request } = values;
  if (!config) throw new Error('weir explain needs --config: a name, a file or a config as JSON.');
  if (!request) throw new Error('weir explain needs --request: a file with the request.');
  return { name: 'explain', config, request, file: values.file ?? file, json: values.json ?? false };
}

/** `weir backup`, `weir restore`. */
export type BackupCommand =
  | (StorePlace & { readonly name: 'backup'; readonly out: string })
  | (StorePlace & { readonly name: 'restore'; readonly file: string });

const passphrase = `  The passphrase (12 characters or more) comes from WEIR_BACKUP_PASSPHRASE, or from the first line of standard input. A
  backup cannot be restored without it: keep it apart from the file.`;

const backupUsage = {
  backup: `weir backup: writes all administration data to one file, while the gateway runs

  weir backup --out FILE [--config FILE] [--data DIR]

  Contains a consistent snapshot of every table of the relational store (organisations, users, keys, records with their
  versions, prompts, settings, audit trails), identity.json and the key file of the data folder. These two files are
  encrypted with the passphrase. It does not contain logs and analytics, log rows in the journal, files of exports,
  waiting jobs, or the configuration file.

${passphrase}`,
  restore: `weir restore: creates a data folder from a backup

  weir restore FILE [--config FILE] [--data DIR]

  The folder and the database of storage.resources have to be empty. The whole file is checked before anything is
  written; a failure leaves the folder unchanged. weir start then serves with the same keys, secrets and owner.

${passphrase}`,
} as const;

function readBackupArguments(
  name: BackupCommand['name'],
  args: readonly string[],
  defaults: StorePlace,
): BackupCommand {
  const text = { type: 'string' } as const;
  const { values, positionals } = parseArgs({
    args: [...args],
    options: { config: text, data: text, out: text },
    allowPositionals: name === 'restore',
  });
  const place = { config: values.config ?? defaults.config, data: values.data ?? defaults.data };
  if (name === 'backup') {
    if (values.out === undefined) throw new Error('weir backup needs a file to write to: --out FILE.');
    return { name, ...place, out: values.out };
  }
  const [file, ...more] = positionals;
  if (file === undefined || more.length > 0 || values.out !== undefined)
    throw new Error('weir restore takes one file.');
  return { name, ...place, file };
}

/** Configuration and data folder in which a command finds the store. */
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

const common = `  The command uses the store of storage.resources: [--config FILE] (WEIR_CONFIG), and for the embedded store [--data DIR]
  (WEIR_DATA), which no gateway may use at the same time. With a PostgreSQL server, gateways may keep running.`;

const administrationUsage = {
  export: `weir export: prints the content of the store as YAML, without its audit trails

  weir export [--out FILE] [--organisation ID]

  Organisations with their settings, workspaces, users, members, keys, pending invites and group mappings, and all
  records (configs, integrations, prompts …) with their versions. Keys are exported only as hashes; secrets of records
  stay encrypted as in the store. Records that the configuration file owns are not exported.

${common}`,
  import: `weir import: writes an export of weir export into the store

  weir import FILE [--replace]

  Missing records are added with their ids; equal records are skipped, so that an import can be repeated. Records that
  differ are printed and stay unchanged, and import ends with 1; --replace overwrites them. Each organisation is one
  transaction with an entry of its audit trail: a mistake in it rolls back the whole organisation. Secrets of records
  need the key that encrypted them: in WEIR_SECRET_KEY, WEIR_SECRET_KEY_PREVIOUS or the key file of the data folder.

${common}`,
  audit: `weir audit verify: reads every audit trail, and prints the first record that was altered

  weir audit verify [--organisation ID]

  Detects changed, removed, moved and added records, and truncated trails; ends with 1 if it finds one.

${common}`,
  'rotate-secrets': `weir rotate-secrets: encrypts every stored secret with the current key

  weir rotate-secrets

  Without WEIR_SECRET_KEY, the command creates a new key in the data folder, which no gateway may use at the same time; it
  deletes the previous key when no secret uses it any more. With WEIR_SECRET_KEY, set the new key there and the old ones
  in WEIR_SECRET_KEY_PREVIOUS, for every gateway first and then for this command. It can be repeated, and continues where
  it was interrupted.

${common}`,
} as const;

function readAdministrationArguments(
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

/** `weir reconcile` with a provider's file, or with `--budgets`. */
export type ReconcileCommand = StorePlace & { readonly name: 'reconcile'; readonly json: boolean } & (
    | {
        readonly compares: 'bills';
        readonly provider: Biller;
        /** The provider's file. */
        readonly file: string;
        /** `YYYY-MM-DD`, both included; undefined: the first and the last day of the file. */
        readonly from: string | undefined;
        readonly to: string | undefined;
      }
    | { readonly compares: 'budgets'; readonly isDryRun: boolean }
  );

/** `weir reprice`. */
export type RepriceCommand = StorePlace & {
  readonly name: 'reprice';
  readonly action: 'list' | 'dry-run' | 'price';
  /** Kind of provider, and model as answered; undefined: all. */
  readonly provider: string | undefined;
  readonly model: string | undefined;
  /** `YYYY-MM-DD`, both included; undefined: the last 30 days. */
  readonly from: string | undefined;
  readonly to: string | undefined;
  readonly json: boolean;
};

const costStore = `  The command uses the store of storage.analytics: [--config FILE] (WEIR_CONFIG), and for the embedded store [--data DIR]
  (WEIR_DATA), which no gateway may use at the same time. With a ClickHouse server, gateways may keep running.`;

const costUsage = {
  reconcile: `weir reconcile: compares billed costs of a provider with recorded costs, by day (UTC) and model

  weir reconcile --provider openai|anthropic|bedrock --file FILE [--from DAY] [--to DAY] [--json]
  weir reconcile --budgets [--dry-run] [--json]

  FILE is an export of the provider, CSV or JSON, optionally compressed with gzip:
    openai     the export of costs by line item, or pages of GET /v1/organization/costs?group_by=line_item
    anthropic  the export of costs of the console, or pages of GET /v1/organizations/cost_report?group_by[]=description
    bedrock    an AWS Cost and Usage Report (CSV)
  DAY is like 2026-05-17; both days are included. Default: the first and the last day of the file.

  Prints the difference for each day and model, costs that only one side has, and billed names without a recorded model.
  Read-only. Ends with 1 if the file or the store cannot be read, and names line and column.

  --budgets compares the counts of usage limits in their current periods with the rows of requests, and adds missing
  amounts (--dry-run: only prints them). A gateway does the same itself after it was killed. It also reads the store of
  storage.resources; with Redis and no relational store there is nothing to compare.

${costStore}`,
  reprice: `weir reprice: sets prices of requests without a price

  weir reprice --list [--from DAY] [--to DAY] [--provider P] [--model M] [--json]
  weir reprice --from DAY --to DAY [--provider P] [--model M] [--dry-run] [--json]

  Requests of models for which no price is known are "unpriced" and count as 0 in every sum; they are never taken for free.
  --list prints those models: requests and tokens of each, and whether a price is known now. Without it such requests get
  the price of the integration of their provider, of this configuration or of this version for the time of the request, in
  their rows and in all sums; requests that already have a price, or still have none, stay unchanged. Usage limits are not
  charged; weir reconcile --budgets does this.

  DAY      like 2026-05-17 (UTC); both days are included. Default with --list: the last 30 days
  P, M     a kind of provider, such as openai, and a model as named in the answer
  --dry-run  prints the requests that would get a price, with their cost, and changes nothing

  Run an interrupted command again, also after Ctrl-C: it continues where it was, and counts nothing twice. Ends with 1 if
  it was interrupted, or if the store cannot be read or changed. Integrations are in storage.resources: if that store is
  embedded, the command also needs the data folder; --list reads no integrations.

${costStore}`,
} as const;

function readReconcileArguments(args: readonly string[], defaults: StorePlace): ReconcileCommand {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args: [...args],
    options: {
      ...{ config: text, data: text, provider: text, file: text, from: text, to: text },
      ...{ json: { type: 'boolean' }, budgets: { type: 'boolean' }, 'dry-run': { type: 'boolean' } },
    },
  });
  const {
    config = defaults.config,
    data = defaults.data,
    json = false,
    'dry-run': isDryRun = false,
  } = values;
  if (values.budgets === true) {
    const other = (['provider', 'file', 'from', 'to'] as const).find((name) => values[name] !== undefined);
    if (other !== undefined)
      throw new Error(`weir reconcile --budgets compares the current periods, and takes no --${other}.`);
    return { name: 'reconcile', compares: 'budgets', config, data, json, isDryRun };
  }
  if (isDryRun) throw new Error('--dry-run belongs to --budgets: comparing bills changes nothing.');
  const provider = billers.find((one) => one === values.provider);
  if (provider === undefined)
    throw new Error(`weir reconcile needs --provider (${listWords(billers, 'or')}), or --budgets.`);
  if (!values.file) throw new Error('weir reconcile needs --file: an export of the provider.');
  return {
    ...{ name: 'reconcile', compares: 'bills', provider, file: values.file, config, data, json },
    ...{ from: dayArgument('from', values.from), to: dayArgument('to', values.to) },
  };
}

function readRepriceArguments(args: readonly string[], defaults: StorePlace): RepriceCommand {
  const text = { type: 'string' } as const;
  const flag = { type: 'boolean' } as const;
  const { values } = parseArgs({
    args: [...args],
    options: {
      ...{ config: text, data: text, from: text, to: text, provider: text, model: text },
      ...{ json: flag, list: flag, 'dry-run': flag },
    },
  });
  const { list = false, 'dry-run': dryRun = false, provider, model } = values;
  if (list && dryRun)
    throw new Error('weir reprice takes one of --list and --dry-run: neither changes anything.');
  if (!list && (values.from === undefined || values.to === undefined))
    throw new Error('weir reprice needs --from and --to, or --list.');
  return {
    ...{ name: 'reprice', action: list ? 'list' : dryRun ? 'dry-run' : 'price', json: values.json ?? false },
    ...{ config: values.config ?? defaults.config, data: values.data ?? defaults.data },
    ...{ from: dayArgument('from', values.from), to: dayArgument('to', values.to), provider, model },
  };
}

function dayArgument(name: string, text: string | undefined): string | undefined {
  if (text === undefined || isDay(text)) return text;
  throw new Error(`--${name} is ${quoted(text)}, and no day like 2026-05-17.`);
}

/** `weir plugin …`. */
export type PluginCommand =
  | { readonly name: 'plugin'; readonly action: 'new'; readonly plugin: string }
  | {
      readonly name: 'plugin';
      readonly action: 'test';
      readonly file: string;
      readonly options: Readonly<Record<string, unknown>>;
      /** What clients ask and what the provider answers; undefined for a text of no meaning. */
      readonly prompt: string | undefined;
      readonly answer: string | undefined;
    }
  | {
      readonly name: 'plugin';
      readonly action: 'docs';
      readonly file: string;
      readonly options: Readonly<Record<string, unknown>> | undefined;
    };

const pluginUsage = `weir plugin: for authors of plugins (docs/plugins.md)

  weir plugin new NAME                     make a folder NAME with a plugin, its test, types and a configuration
  weir plugin test FILE [--options JSON]   run it in a gateway: each wire, whole and streamed, the answer cut at every
             [--prompt TEXT]               place, translated, with tool calls, with stores away, over a reload; one line
             [--answer TEXT]               for each, exit code 1 when one fails. TEXT should hold what the plugin is for
  weir plugin docs FILE [--options JSON]   its reference as Markdown; hooks and routes need options that it can start with

  JSON is an object: --options '{ "words": ["Initech"] }'.`;

function readPluginArguments(args: readonly string[]): PluginCommand {
  const { values, positionals } = parseArgs({
    args: [...args],
    options: { options: { type: 'string' }, prompt: { type: 'string' }, answer: { type: 'string' } },
    allowPositionals: true,
  });
  const [action, subject, ...more] = positionals;
  if (action !== 'new' && action !== 'test' && action !== 'docs')
    throw new Error(
      `weir plugin knows new, test and docs${action === undefined ? '' : `, not ${quoted(action)}`}.`,
    );
  if (subject === undefined || more.length > 0)
    throw new Error(`weir plugin ${action} takes one ${action === 'new' ? 'name' : 'file'}.`);
  const foreign = Object.keys(values).filter(
    (name) => action === 'new' || (action === 'docs' && name !== 'options'),
  );
  if (foreign.length > 0) throw new Error(`weir plugin ${action} takes no --${foreign.join(', --')}.`);
  if (action === 'new') return { name: 'plugin', action, plugin: subject };
  const options = values.options === undefined ? undefined : objectOf(values.options);
  if (action === 'docs') return { name: 'plugin', action, file: subject, options };
  const { prompt, answer } = values;
  return { name: 'plugin', action, file: subject, options: options ?? {}, prompt, answer };
}

function objectOf(text: string): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = undefined;
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return { ...value };
  throw new Error('--options is no JSON object. Write it as \'{ "name": "value" }\'.');
}

const administration = (name: AdministrationCommand['name']) => ({
  usage: administrationUsage[name],
  read: (args: readonly string[], defaults: StorePlace) => readAdministrationArguments(name, args, defaults),
});

const backup = (name: BackupCommand['name']) => ({
  usage: backupUsage[name],
  read: (args: readonly string[], defaults: StorePlace) => readBackupArguments(name, args, defaults),
});

/** The help of each command, and the reader of its arguments, which throws the reason for unclear input. */
export const storeCommands = {
  journal: { usage: journalUsage, read: readJournalArguments },
  explain: { usage: explainUsage, read: readExplainArguments },
  plugin: { usage: pluginUsage, read: readPluginArguments },
  export: administration('export'),
  import: administration('import'),
  audit: administration('audit'),
  'rotate-secrets': administration('rotate-secrets'),
  backup: backup('backup'),
  restore: backup('restore'),
  reconcile: { usage: costUsage.reconcile, read: readReconcileArguments },
  reprice: { usage: costUsage.reprice, read: readRepriceArguments },
};
