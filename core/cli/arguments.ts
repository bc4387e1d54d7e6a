import { parseArgs } from 'node:util';
import { explainUsage, readExplainArguments, type ExplainCommand } from './explain-arguments.ts';
import { journalUsage, readJournalArguments, type JournalCommand } from './journal-arguments.ts';

/** What the command line and the environment ask for. */
export type Command =
  | {
      readonly name: 'start';
      readonly config: string | undefined;
      readonly port: number | undefined;
      /** Address to listen on, instead of `server.host`. */
      readonly host: string | undefined;
      readonly data: string;
    }
  | { readonly name: 'check'; readonly file: string | undefined }
  | { readonly name: 'schema' }
  | JournalCommand
  | ExplainCommand
  | { readonly name: 'help'; readonly problem?: string; readonly topic?: HelpTopic };

/** A command with a help text of its own. */
export type HelpTopic = 'journal' | 'explain';

const usage = `weir: a gateway in front of model providers

  weir start [--config FILE] [--port N] [--data DIR]   serve (environment: WEIR_CONFIG, PORT, WEIR_DATA)
             [--host ADDRESS]                          listen there instead of server.host (WEIR_HOST)
  weir check [FILE]                                    name every mistake in a configuration, start nothing
  weir explain --config X --request FILE               show how a config would route a request, send nothing
  weir schema                                          print the JSON Schema of the configuration
  weir journal status|verify|replay                    look after the log rows on disk (weir journal --help)
  weir help                                            print this

  WEIR_ADMIN_KEY presets the owner key (at least 16 characters); without it one is generated and shown once.`;

/** The help of one command, or of all. */
export function helpText(topic: HelpTopic | undefined): string {
  return { journal: journalUsage, explain: explainUsage, all: usage }[topic ?? 'all'];
}

/** Reads the command line; the command line wins over the environment. Anything unclear becomes `help` with the reason. */
export function readArguments(
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): Command {
  const [first = 'start', ...others] = args;
  const name = first.startsWith('-') ? 'start' : first;
  const rest = first.startsWith('-') ? [...args] : others;
  if (name === 'journal') return journal(rest, env);
  if (name === 'explain') return explain(rest, env);
  if (name === 'help' || rest.includes('--help') || rest.includes('-h')) return { name: 'help' };
  try {
    if (name === 'start') return start(rest, env);
    if (name === 'check') {
      const { positionals } = parseArgs({ args: rest, options: {}, allowPositionals: true });
      if (positionals.length > 1) return { name: 'help', problem: 'weir check takes one file.' };
      return { name: 'check', file: positionals[0] ?? given(env['WEIR_CONFIG']) };
    }
    if (name === 'schema') {
      parseArgs({ args: rest, options: {} });
      return { name: 'schema' };
    }
  } catch (error) {
    return { name: 'help', problem: error instanceof Error ? error.message : String(error) };
  }
  return { name: 'help', problem: `There is no command "${name}".` };
}

function journal(args: string[], env: Readonly<Record<string, string | undefined>>): Command {
  if (args.length === 0 || args.includes('--help') || args.includes('-h')) {
    return { name: 'help', topic: 'journal' };
  }
  try {
    return readJournalArguments(args, {
      data: given(env['WEIR_DATA']) ?? 'data',
      config: given(env['WEIR_CONFIG']),
    });
  } catch (error) {
    return {
      name: 'help',
      topic: 'journal',
      problem: error instanceof Error ? error.message : String(error),
    };
  }
}

function explain(args: string[], env: Readonly<Record<string, string | undefined>>): Command {
  if (args.length === 0 || args.includes('--help') || args.includes('-h')) {
    return { name: 'help', topic: 'explain' };
  }
  try {
    return readExplainArguments(args, given(env['WEIR_CONFIG']));
  } catch (error) {
    return {
      name: 'help',
      topic: 'explain',
      problem: error instanceof Error ? error.message : String(error),
    };
  }
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
  const port = values.port ?? given(env['PORT']);
  if (port !== undefined && !/^\d{1,5}$/.test(port)) {
    return { name: 'help', problem: `The port "${port}" is no number from 0 to 65535.` };
  }
  if (Number(port ?? 0) > 65535) return { name: 'help', problem: `The port ${port} is above 65535.` };
  return {
    name: 'start',
    config: values.config ?? given(env['WEIR_CONFIG']),
    port: port === undefined ? undefined : Number(port),
    host: values.host ?? given(env['WEIR_HOST']),
    data: values.data ?? given(env['WEIR_DATA']) ?? 'data',
  };
}

/** A variable that is set to nothing counts as not set. */
function given(variable: string | undefined): string | undefined {
  return variable === '' ? undefined : variable;
}
