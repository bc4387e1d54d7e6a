// Entry point: reads the command line and loads the modules of the command. `main/` is the composition root: `start.ts`
// opens the stores and has `serve.ts` listen with the gateway that `assemble.ts` builds. Everything else is in core
// (the parts of a gateway), plugins (composed by operators), adapters (providers) and storage.
import {
  type Command,
  completion,
  helpText,
  readArguments,
  version,
} from './core/administration/cli/arguments.ts';
import { loadConfig } from './core/config/load-config.ts';
import { systemClock as clock } from './core/ports/clock.ts';
import { configFile } from './main/config-file.ts';
import { privateFolders } from './storage/embedded/own-folder.ts';

const env = process.env;

async function run(command: Command): Promise<number | undefined> {
  const load = (file: string) => loadConfig(file, { env });
  const parts = { configFile, load, clock, print: console.log, complain: console.error };
  switch (command.name) {
    case 'help':
      return help(command);
    case 'start':
      return (await import('./main/start.ts')).start(command);
    case 'check':
      return (await import('./main/check.ts')).check(configFile(command.file), command);
    case 'fmt':
      return (await import('./main/format-config.ts')).formatConfig(command.files, command.isCheck);
    case 'doctor': {
      const { doctor } = await import('./main/doctor.ts');
      return doctor(configFile(command.config), { ...command, environment: env, print: console.log });
    }
    case 'completion':
      console.log(completion(command.shell));
      return 0;
    case 'version':
      console.log(version);
      return 0;
    case 'schema':
      return (await import('./main/print-schema.ts')).printSchema();
    case 'clickhouse': {
      const { printClickHouseSchema } = await import('./main/clickhouse-command.ts');
      return printClickHouseSchema(configFile(command.config), command);
    }
    case 'explain': {
      const { explainTools } = await import('./main/explain-tools.ts');
      const { runExplainCommand } = await import('./core/administration/cli/explain-command.ts');
      return runExplainCommand(command, explainTools({ ...parts, environment: env }));
    }
    case 'plan': {
      const { planTools } = await import('./main/plan-tools.ts');
      const { runPlanCommand } = await import('./core/administration/cli/plan-command.ts');
      return runPlanCommand(command, planTools({ ...parts, environment: env }));
    }
    case 'apply': {
      const { applyTools } = await import('./main/ask-gateway.ts');
      const { runApplyCommand } = await import('./core/administration/cli/apply-command.ts');
      return runApplyCommand(command, applyTools(parts));
    }
    case 'plugin':
      return (await import('./main/plugin-command/run.ts')).runPluginCommand(command, parts);
    case 'bench':
      return (await import('./main/bench-command/run.ts')).runBenchCommand(command, parts);
    case 'journal': {
      const { journalTools } = await import('./main/journal-tools.ts');
      const { runJournalCommand } = await import('./core/administration/cli/journal-command.ts');
      return runJournalCommand(command, journalTools(parts));
    }
    case 'reconcile': {
      const { costTools } = await import('./main/cost-tools.ts');
      const { runReconcileCommand } = await import('./core/administration/cli/reconcile-command.ts');
      return runReconcileCommand(command, costTools(parts));
    }
    case 'reprice': {
      const { costTools } = await import('./main/cost-tools.ts');
      const { runRepriceCommand } = await import('./core/administration/cli/reprice-command.ts');
      return runRepriceCommand(command, costTools(parts));
    }
    case 'import-from':
      return (await import('./main/import-command/run.ts')).runImportCommand(command, parts);
    case 'backup':
    case 'restore':
      return (await import('./main/backup.ts')).runBackupCommand(command);
    default: {
      const { administrationTools } = await import('./main/administration-tools.ts');
      const { runAdministrationCommand } =
        await import('./core/administration/cli/administration-command.ts');
      return runAdministrationCommand(command, administrationTools({ ...parts, environment: env }));
    }
  }
}

function help({ topic, problem }: Extract<Command, { name: 'help' }>): number {
  const text = helpText(topic);
  if (problem === undefined) console.log(text);
  else console.error(`${problem}\n\n${text}`);
  return problem === undefined ? 0 : 2;
}

// A reader of the output may leave (`weir start 2>&1 | head`). The process continues; reporting the error to the closed
// output would raise the next one, without end.
for (const output of [process.stdout, process.stderr]) output.on('error', () => undefined);
privateFolders.writePrivately();
const code = await run(readArguments(process.argv.slice(2), env));
if (code !== undefined) process.exitCode = code;
