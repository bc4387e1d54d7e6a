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

export const journalUsage = `weir journal: the log rows on disk that wait for the analytics store

  weir journal status [--data DIR] [--json]    segments, rows, bytes, the oldest row, quarantine, the bound and what
                                               came of it (shed rows, blocked requests); changes nothing
  weir journal verify [--data DIR] [--json]    read every row, name each bad one as FILE:OFFSET; changes nothing
  weir journal replay --quarantine             put the rows of the quarantine back
  weir journal replay FILE...                  put rows of files back, one JSON object in each line
      [--table requests|bodies|feedback] [--data DIR] [--config FILE] [--json]

  status and verify work beside a running gateway and without one. verify ends with 1 when a row is bad.

  replay is for rows that the store refused, once the cause is gone: the schema is up to date, or somebody repaired
  the rows in the files of the quarantine. It refuses while a gateway runs on the folder, since only one process may
  write there. The rows become new segments, which the next start of the gateway ships.

  No row is stored twice: the store is asked for every id first, whatever its deduplication remembers, and ids that
  wait in the journal already are left out too, so a replay that was interrupted is simply repeated. A file of the
  quarantine is removed when all its rows are back or known; your own files stay. A row that cannot go back (no JSON,
  no UUID as id, no created_at) is named as FILE:OFFSET and stays where it is; replay then ends with 1.

  The table of a row comes from its quarantine entry, from --table, or from a file name that begins with requests-,
  bodies- or feedback-. WEIR_DATA and WEIR_CONFIG name the data folder and the configuration.`;

/** Reads the arguments of `journal`. Throws an error with the reason for unclear input. */
export function readJournalArguments(
  args: readonly string[],
  defaults: { readonly data: string; readonly config: string | undefined },
): JournalCommand {
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

export const explainUsage = `weir explain: how a request would be routed by a config, without sending anything

  weir explain --config X --request FILE [--file CONFIGURATION] [--json]

  X is the name of a config under "configs:", a file with a config (JSON or YAML), or a config as JSON.
  FILE holds the request as JSON: { "method": "POST", "path": "/v1/chat/completions", "headers": {}, "body": {} };
  all of it is optional, and x-service-metadata may be written as an object.
  CONFIGURATION is the gateway's file; default: gateway.config.yaml or WEIR_CONFIG.

  Prints what each branch decides and why, the order of attempts with the settings of each, and where a failure leads.
  Ends with 1 when the config, the configuration or the request cannot be used.`;

/** Reads the arguments of `explain`. Throws an error with the reason for unclear input. */
export function readExplainArguments(args: readonly string[], file: string | undefined): ExplainCommand {
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

const passphrase = `  The passphrase (12 characters or more) comes from WEIR_BACKUP_PASSPHRASE, or is the first line of standard input. Without
  it no backup can be restored: keep it apart from the file.`;

/** The help of both. */
export const backupUsage = {
  backup: `weir backup: everything that is administered, in one file, while the gateway runs

  weir backup --out FILE [--config FILE] [--data DIR]

  Holds every table of the relational store as it is at one moment (organisations, users, keys, records with their
  versions, prompts, settings, audit trails), identity.json and the key file of the data folder. These two are sealed
  with the passphrase. It does not hold logs and analytics, log rows on their way (the journal), files of exports,
  waiting jobs, nor the configuration file.

${passphrase}`,
  restore: `weir restore: makes a data folder from a backup

  weir restore FILE [--config FILE] [--data DIR]

  The folder has to be empty, and so has the database of storage.resources. The whole file is checked before anything is
  written; what fails leaves the folder as it was. weir start then serves with the same keys, secrets and owner.

${passphrase}`,
} as const;

/** Reads the arguments of the command. Throws an error with the reason for unclear input. */
export function readBackupArguments(
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

/** Reads the arguments of the command. Throws an error with the reason for unclear input. */
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

/** `weir reconcile` with a provider's file. */
export type ReconcileBillsCommand = StorePlace & {
  readonly name: 'reconcile';
  readonly compares: 'bills';
  readonly provider: Biller;
  /** The provider's file. */
  readonly file: string;
  /** `YYYY-MM-DD`, both included; undefined: the first and the last day of the file. */
  readonly from: string | undefined;
  readonly to: string | undefined;
  readonly json: boolean;
};

/** `weir reconcile --budgets`. */
export type ReconcileBudgetsCommand = StorePlace & {
  readonly name: 'reconcile';
  readonly compares: 'budgets';
  readonly isDryRun: boolean;
  readonly json: boolean;
};

/** `weir reconcile`. */
export type ReconcileCommand = ReconcileBillsCommand | ReconcileBudgetsCommand;

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

const costStore = `  The store is the one of storage.analytics: [--config FILE] (WEIR_CONFIG), and for the embedded one [--data DIR]
  (WEIR_DATA), which no gateway may be using meanwhile. A ClickHouse server is used beside its gateways.`;

/** Help texts of the commands about costs. */
export const costUsage = {
  reconcile: `weir reconcile: what a provider billed beside what the gateway recorded, by day (UTC) and model

  weir reconcile --provider openai|anthropic|bedrock --file FILE [--from DAY] [--to DAY] [--json]
  weir reconcile --budgets [--dry-run] [--json]

  FILE is what the provider exports, CSV or JSON, also packed by gzip:
    openai     the export of costs by line item, or pages of GET /v1/organization/costs?group_by=line_item
    anthropic  the export of costs of the console, or pages of GET /v1/organizations/cost_report?group_by[]=description
    bedrock    an AWS Cost and Usage Report (CSV)
  DAY is like 2026-05-17; both are included, and the first and last day of the file are the default.

  Says the difference of each day and model, what only one side has, and billed names that no recorded model has. Changes
  nothing. Ends with 1 when the file or the store cannot be read, naming line and column.

  --budgets compares what usage limits have counted in their present periods with the rows of requests, and adds what they
  miss (--dry-run: only says it). A gateway does the same by itself when it was killed. It reads the store of
  storage.resources as well, and with Redis and no relational store there is nothing to compare.

${costStore}`,
  reprice: `weir reprice: requests that have no price

  weir reprice --list [--from DAY] [--to DAY] [--provider P] [--model M] [--json]
  weir reprice --from DAY --to DAY [--provider P] [--model M] [--dry-run] [--json]

  Requests of models for which no price is known are "unpriced" and count as 0 in every sum; they are never taken for free.
  --list names those models: requests and tokens of each, and whether a price is known now. Without it such requests get the
  price that the integration of their provider, this configuration and this version know for the time of the request, in their
  rows and in all sums; requests that have a price already, and those without one still, stay as they are. Usage limits are
  not charged afterwards; weir reconcile --budgets does so.

  DAY      like 2026-05-17 (UTC); both are included. With --list the last 30 days are the default
  P, M     a kind of provider, such as openai, and a model as it was answered
  --dry-run  says what would get a price, with its cost, and changes nothing

  A command that was broken off, by Ctrl-C too, is run again: it goes on where it was, and counts nothing twice. Ends with 1
  when it was broken off, or when the store cannot be read or changed. Integrations stand in storage.resources: an embedded
  store there needs the data folder as well, and --list reads none.

${costStore}`,
} as const;

/** Reads the arguments of `reconcile`. Throws an error with the reason for unclear input. */
export function readReconcileArguments(args: readonly string[], defaults: StorePlace): ReconcileCommand {
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
      throw new Error(`weir reconcile --budgets compares the present periods, and takes no --${other}.`);
    return { name: 'reconcile', compares: 'budgets', config, data, json, isDryRun };
  }
  if (isDryRun) throw new Error('--dry-run belongs to --budgets: comparing bills changes nothing.');
  const provider = billers.find((one) => one === values.provider);
  if (provider === undefined)
    throw new Error(`weir reconcile needs --provider (${listWords(billers, 'or')}), or --budgets.`);
  if (!values.file) throw new Error('weir reconcile needs --file: what the provider exports.');
  return {
    ...{ name: 'reconcile', compares: 'bills', provider, file: values.file, config, data, json },
    ...{ from: dayArgument('from', values.from), to: dayArgument('to', values.to) },
  };
}

/** Reads the arguments of `reprice`. Throws an error with the reason for unclear input. */
export function readRepriceArguments(args: readonly string[], defaults: StorePlace): RepriceCommand {
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

export const pluginUsage = `weir plugin: for authors of plugins (docs/plugins.md)

  weir plugin new NAME                     make a folder NAME with a plugin, its test, types and a configuration
  weir plugin test FILE [--options JSON]   run it in a gateway: each wire, whole and streamed, the answer cut at every
             [--prompt TEXT]               place, translated, with tool calls, with stores away, over a reload; one line
             [--answer TEXT]               for each, exit code 1 when one fails. TEXT should hold what the plugin is for
  weir plugin docs FILE [--options JSON]   its reference as Markdown; hooks and routes need options that it can start with

  JSON is an object: --options '{ "words": ["Initech"] }'.`;

/** Reads the arguments of `plugin`. Throws an error with the reason for unclear input. */
export function readPluginArguments(args: readonly string[]): PluginCommand {
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
