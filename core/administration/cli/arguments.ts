import { parseArgs } from 'node:util';
import { listWords } from '../../base/did-you-mean.ts';
import {
  type AdministrationCommand,
  type BackupCommand,
  type ExplainCommand,
  type JournalCommand,
  type PluginCommand,
  type ReconcileCommand,
  type RepriceCommand,
  storeCommands,
} from './command-arguments.ts';
import { benchArguments, type BenchCommand } from './bench-arguments.ts';
import { type ApplyCommand, changeCommands, type PlanCommand } from './change-arguments.ts';
import { messageOf } from '../../errors/gateway-error.ts';

/** Version of the package; `weir --version` prints it. */
export const version = '0.1.0';

/** `weir clickhouse schema`. */
interface ClickHouseCommand {
  readonly name: 'clickhouse';
  readonly config: string | undefined;
  /** Statements for one server, without ON CLUSTER. */
  readonly oneServer: boolean;
}

/** Command of the command line and the environment. */
export type Command =
  | {
      readonly name: 'start';
      readonly config: string | undefined;
      readonly port: number | undefined;
      /** Listening address that overrides `server.host`. */
      readonly host: string | undefined;
      readonly data: string;
      /** Overrides `server.drain_delay_ms`. */
      readonly drainDelayMs?: number;
    }
  | {
      readonly name: 'check';
      readonly file: string | undefined;
      readonly data: string;
      /** Skips the modules of third-party plugins. */
      readonly withoutCode: boolean;
      /** Checks again whenever one of the files changes. */
      readonly watch: boolean;
    }
  | { readonly name: 'fmt'; readonly files: readonly string[]; readonly isCheck: boolean }
  | {
      readonly name: 'doctor';
      readonly config: string | undefined;
      readonly data: string;
      readonly port: number | undefined;
      readonly json: boolean;
    }
  | { readonly name: 'completion'; readonly shell: Shell }
  | { readonly name: 'version' }
  | { readonly name: 'schema' }
  | ClickHouseCommand
  | JournalCommand
  | ExplainCommand
  | PlanCommand
  | ApplyCommand
  | PluginCommand
  | BenchCommand
  | AdministrationCommand
  | ImportFromCommand
  | BackupCommand
  | ReconcileCommand
  | RepriceCommand
  | { readonly name: 'help'; readonly problem?: string; readonly topic?: HelpTopic };

/** Upper bound of `server.drain_delay_ms`. */
const longestDrainDelayMs = 300_000;

const usage = `weir: a gateway in front of model providers

  weir start [--config FILE] [--port N] [--data DIR]   serve (environment: WEIR_CONFIG, PORT, WEIR_DATA)
             [--host ADDRESS]                          address to listen on instead of server.host (WEIR_HOST)
  weir check [FILE] [--no-plugins] [--data DIR]        report every mistake in a configuration, start nothing;
             [--watch]                                 runs the code of your own plugins, unless --no-plugins;
                                                       --watch: again whenever one of its files changes
  weir fmt [FILE...] [--check]                         format YAML; --check only names what is not formatted
  weir doctor [--config FILE] [--data DIR] [--json]    look at versions, ports, stores, clocks, limits and permissions:
              [--port N]                               what is wrong, and the command that mends it; changes nothing
  weir explain --config X --request FILE               show how a config routes a request, send nothing
  weir plan --config NEW [--since 1h]                  show what a new configuration changes for recorded requests
  weir apply --config NEW [--canary 10%] [--for 5m]    let it serve a share of the requests, keep it or take it back
  weir plugin new|test|docs                            for authors of plugins (weir plugin --help)
  weir bench [--config FILE] [--out DIR]               measure your configuration on this machine (weir bench --help)
  weir schema                                          print the JSON Schema of the configuration
  weir clickhouse schema                               print the tables for a ClickHouse server (weir clickhouse --help)
  weir journal status|verify|replay                    manage the log rows on disk (weir journal --help)
  weir export [--out FILE]                             print the content of the store as YAML (weir export --help)
  weir import FILE [--replace]                         write an export into the store (weir import --help)
  weir import litellm|portkey|bifrost|openrouter FILE  write a configuration from that of another gateway
  weir backup --out FILE                               write all administration data to one file, while the gateway runs
  weir restore FILE                                    create a data folder from a backup (weir restore --help)
  weir audit verify                                    verify that no audit trail was changed (weir audit --help)
  weir reconcile --provider X --file FILE              compare billed costs with recorded costs (--help)
  weir reprice --from DAY --to DAY                     set prices of requests without a price (weir reprice --help)
  weir rotate-secrets                                  encrypt stored secrets with a new key (weir rotate-secrets --help)
  weir completion bash|zsh|fish                        print a script for your shell: source <(weir completion bash)
  weir --version                                       print the version
  weir help                                            print this

  WEIR_ADMIN_KEY presets the owner key (at least 16 characters); without it one is generated and shown once.
  WEIR_DRAIN_DELAY_MS overrides server.drain_delay_ms: time to keep listening after SIGTERM.
  WEIR_OWNER_EMAIL is the e-mail address of the first user, the owner; read only at the first start.
  WEIR_SECRET_KEY is the key that encrypts stored secrets; without it the key is kept in the data folder.`;

const clickHouseUsage = `weir clickhouse: the tables of logs and analytics on a ClickHouse server

  weir clickhouse schema [--config FILE] [--one-server]

  Prints every statement of the schema for the server or cluster of storage.analytics, for clickhouse-client
  --multiquery, and connects to nothing. A gateway does the same at its start; this is for users who may not create
  tables, and for servers that join a cluster. See docs/clickhouse.md.

  --config FILE   configuration (default: WEIR_CONFIG, else gateway.config.yaml)
  --one-server    nothing ON CLUSTER: for each server of a new shard, before it joins the cluster`;

/** The help of one command, or of all. */
export function helpText(topic: HelpTopic | undefined): string {
  if (topic === undefined) return usage;
  const { usage: own } = topics[topic];
  return topic === 'import' ? `${own}\n\n${importFromUsage}` : own;
}

/** The script that completes the commands in a shell. */
export function completion(shell: Shell): string {
  return completionScript(
    shell,
    completedCommands(usage, (name) => helpText(isTopic(name) ? name : undefined)),
  );
}

/** Reads the command line, which overrides the environment. Unclear input becomes `help` with the reason. */
export function readArguments(
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): Command {
  const [first = 'start', ...others] = args;
  const name = first.startsWith('-') ? 'start' : first;
  const rest = first.startsWith('-') ? [...args] : others;
  if (isTopic(name)) return withTopic(name, rest, env);
  if (name === 'version' || first === '--version' || first === '-v') return { name: 'version' };
  if (name === 'help' || rest.includes('--help') || rest.includes('-h')) return { name: 'help' };
  try {
    if (name === 'start') return start(rest, env);
    if (name === 'check') {
      const { positionals, values } = parseArgs({
        args: rest,
        options: {
          data: { type: 'string' },
          'no-plugins': { type: 'boolean' },
          watch: { type: 'boolean' },
        },
        allowPositionals: true,
      });
      if (positionals.length > 1) return { name: 'help', problem: 'weir check takes one file.' };
      const { data, config } = placeOf(env);
      return {
        name: 'check',
        file: positionals[0] ?? config,
        data: values.data ?? data,
        withoutCode: values['no-plugins'] === true,
        watch: values.watch === true,
      };
    }
    if (name === 'fmt') {
      const { positionals, values } = parseArgs({
        args: rest,
        options: { check: { type: 'boolean' } },
        allowPositionals: true,
      });
      const { config = 'gateway.config.yaml' } = placeOf(env);
      const files = positionals.length === 0 ? [config] : positionals;
      return { name: 'fmt', files, isCheck: values.check === true };
    }
    if (name === 'doctor') return doctor(rest, env);
    if (name === 'completion') {
      const { positionals } = parseArgs({ args: rest, options: {}, allowPositionals: true });
      const shell = shells.find((one) => one === positionals[0]);
      if (shell === undefined || positionals.length > 1)
        return { name: 'help', problem: 'weir completion takes one word: bash, zsh or fish.' };
      return { name: 'completion', shell };
    }
    if (name === 'schema') {
      parseArgs({ args: rest, options: {} });
      return { name: 'schema' };
    }
  } catch (error) {
    return { name: 'help', problem: messageOf(error) };
  }
  return { name: 'help', problem: `There is no command "${name}".` };
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Commands with a help text of their own. Each reader throws the reason for unclear input. */
const topics = {
  ...storeCommands,
  ...changeCommands,
  bench: benchArguments,
  clickhouse: { usage: clickHouseUsage, read: readClickHouseArguments },
};

type HelpTopic = keyof typeof topics;

function readClickHouseArguments(
  args: readonly string[],
  { config }: { readonly config: string | undefined },
): ClickHouseCommand {
  const { positionals, values } = parseArgs({
    args: [...args],
    options: { config: { type: 'string' }, 'one-server': { type: 'boolean' } },
    allowPositionals: true,
  });
  if (positionals.length !== 1 || positionals[0] !== 'schema')
    throw new Error('weir clickhouse takes one word: schema.');
  return { name: 'clickhouse', config: values.config ?? config, oneServer: values['one-server'] === true };
}

function isTopic(name: string): name is HelpTopic {
  return Object.hasOwn(topics, name);
}

/** These commands run without further arguments; the others print their help. */
const standsAlone = new Set<HelpTopic>(['bench', 'export', 'rotate-secrets']);

function withTopic(topic: HelpTopic, args: readonly string[], env: Environment): Command {
  const isQuestion = args.includes('--help') || args.includes('-h');
  if (isQuestion || (args.length === 0 && !standsAlone.has(topic))) return { name: 'help', topic };
  try {
    const from = topic === 'import' ? importSourceOf(args) : undefined;
    if (from !== undefined) return readImportFromArguments(from, args.slice(1));
    return topics[topic].read(args, { ...placeOf(env), key: nonEmpty(env['WEIR_ADMIN_KEY']) });
  } catch (error) {
    return { name: 'help', topic, problem: messageOf(error) };
  }
}

function placeOf(env: Environment): { readonly data: string; readonly config: string | undefined } {
  return { data: nonEmpty(env['WEIR_DATA']) ?? 'data', config: nonEmpty(env['WEIR_CONFIG']) };
}

function doctor(args: string[], env: Environment): Command {
  const { values } = parseArgs({
    args,
    options: {
      config: { type: 'string' },
      data: { type: 'string' },
      port: { type: 'string' },
      json: { type: 'boolean' },
    },
  });
  const { data, config } = placeOf(env);
  return {
    name: 'doctor',
    config: values.config ?? config,
    data: values.data ?? data,
    port: portOf(values.port, env),
    json: values.json === true,
  };
}

/** Port of the command line, else of the environment. Throws the reason when it is none. */
function portOf(named: string | undefined, env: Environment): number | undefined {
  const port = named ?? nonEmpty(env['PORT']);
  if (port === undefined) return undefined;
  if (!/^\d{1,5}$/.test(port)) throw new Error(`The port "${port}" is no number from 0 to 65535.`);
  if (Number(port) > 65535) throw new Error(`The port ${port} is above 65535.`);
  return Number(port);
}

function start(args: string[], env: Readonly<Record<string, string | undefined>>): Command {
  const { values } = parseArgs({
    args,
    options: {
      config: { type: 'string' },
      port: { type: 'string' },
      host: { type: 'string' },
      data: { type: 'string' },
    },
  });
  const port = portOf(values.port, env);
  const drainDelay = nonEmpty(env['WEIR_DRAIN_DELAY_MS']);
  if (
    drainDelay !== undefined &&
    !(/^\d{1,6}$/.test(drainDelay) && Number(drainDelay) <= longestDrainDelayMs)
  )
    return {
      name: 'help',
      problem: `WEIR_DRAIN_DELAY_MS is "${drainDelay.slice(0, 64)}", and no number of milliseconds from 0 to ${longestDrainDelayMs}.`,
    };
  return {
    name: 'start',
    config: values.config ?? nonEmpty(env['WEIR_CONFIG']),
    port,
    host: values.host ?? nonEmpty(env['WEIR_HOST']),
    data: values.data ?? nonEmpty(env['WEIR_DATA']) ?? 'data',
    ...(drainDelay !== undefined && { drainDelayMs: Number(drainDelay) }),
  };
}

/** An empty variable counts as not set. */
function nonEmpty(variable: string | undefined): string | undefined {
  return variable === '' ? undefined : variable;
}

/** Shells that `weir completion` writes a script for. */
const shells = ['bash', 'zsh', 'fish'] as const;

type Shell = (typeof shells)[number];

/** A command with its words and options, as its help names them. */
interface CompletedCommand {
  readonly name: string;
  readonly words: readonly string[];
  readonly options: readonly string[];
}

/** What a help text offers: `weir journal status|verify|replay`, `weir check [--watch]`. */
function completedCommands(usage: string, helpOf: (name: string) => string): readonly CompletedCommand[] {
  const names = new Set([...usage.matchAll(/^ {2}weir ([a-z][a-z-]*)/gm)].map(([, name = '']) => name));
  return [...names].map((name) => {
    const help = helpOf(name);
    const own = [
      ...`${usage}\n${help}`.matchAll(new RegExp(`^ {2}weir ${name}\\b(.*(?:\\n {6,}.*)*)`, 'gm')),
    ];
    const lines = own.map(([, rest = '']) => rest).join('\n');
    const words = [...lines.matchAll(/^ ([a-z][a-z-]*(?:\|[a-z][a-z-]*)*)(?=\s|$)/gm)].flatMap(
      ([, word = '']) => word.split('|'),
    );
    const optionsOf = (text: string) => [...text.matchAll(/--[a-z][a-z-]*/g)].map(([option]) => option);
    const options = help === usage ? optionsOf(lines) : optionsOf(help);
    return { name, words: [...new Set(words)], options: [...new Set([...options, '--help'])].sort() };
  });
}

/** The script of a shell: words after `weir`, options of the command, files otherwise. */
function completionScript(shell: Shell, commands: readonly CompletedCommand[]): string {
  const names = commands.map(({ name }) => name).join(' ');
  if (shell === 'fish') {
    const lines = commands.flatMap(({ name, words, options }) => [
      ...words.map((word) => `complete -c weir -n '__fish_seen_subcommand_from ${name}' -a ${word}`),
      ...options.map(
        (option) => `complete -c weir -n '__fish_seen_subcommand_from ${name}' -l ${option.slice(2)}`,
      ),
    ]);
    return [`complete -c weir -n __fish_use_subcommand -f -a '${names}'`, ...lines].join('\n');
  }
  const cases = commands.map(
    ({ name, words, options }) => `    ${name}) offered='${[...words, ...options].join(' ')}' ;;`,
  );
  const script = `_weir() {
  local word=\${COMP_WORDS[COMP_CWORD]} offered=
  if [ "$COMP_CWORD" = 1 ]; then
    COMPREPLY=($(compgen -W '${names}' -- "$word"))
    return
  fi
  case \${COMP_WORDS[1]} in
${cases.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$offered" -- "$word"))
}
complete -o default -F _weir weir`;
  return shell === 'bash' ? script : `autoload -U +X bashcompinit && bashcompinit\n${script}`;
}

/** Gateways whose configurations can be imported. */
const importSources = ['litellm', 'portkey', 'bifrost', 'openrouter'] as const;

type ImportSource = (typeof importSources)[number];

/** `weir import litellm FILE` and the like. */
export interface ImportFromCommand {
  readonly name: 'import-from';
  readonly from: ImportSource;
  /** A file, or a folder of them. */
  readonly file: string;
  /** File of the configuration; undefined: standard output. */
  readonly out: string | undefined;
  /** File of the report as JSON; undefined: none. */
  readonly report: string | undefined;
  /** Writes over files that are there. */
  readonly force: boolean;
}

const importFromUsage = `weir import ${importSources.join('|')}: writes a configuration from that of another gateway

  weir import litellm config.yaml [--out FILE] [--report FILE] [--force]
  weir import portkey config.json|export.json|FOLDER [--out FILE] [--report FILE] [--force]
  weir import bifrost config.json [--out FILE] [--report FILE] [--force]
  weir import openrouter request.json|FOLDER [--out FILE] [--report FILE] [--force]

  Prints the configuration, or writes it to --out. Standard error gets the report: what means the same, what means
  something else, and what has no counterpart, each with file, line, column and JSON pointer, and the environment
  variables to set. --report writes it as JSON, too. Files that are there stay, unless --force. Values of keys and
  passwords are never copied or printed: a variable stands for each.`;

/** The gateway that the arguments of `weir import` name first; undefined for the file of an export. */
function importSourceOf(args: readonly string[]): ImportSource | undefined {
  return importSources.find((one) => one === args[0]);
}

/** Reads the arguments behind the gateway's name. Throws an error with the reason for unclear input. */
function readImportFromArguments(from: ImportSource, args: readonly string[]): ImportFromCommand {
  const { values, positionals } = parseArgs({
    args: [...args],
    options: { out: { type: 'string' }, report: { type: 'string' }, force: { type: 'boolean' } },
    allowPositionals: true,
  });
  const [file, ...more] = positionals;
  if (file === undefined || more.length > 0)
    throw new Error(
      `weir import ${from} takes one file, or a folder. Sources are ${listWords(importSources, 'and')}.`,
    );
  const { out, report, force = false } = values;
  return { name: 'import-from', from, file, out, report, force };
}
