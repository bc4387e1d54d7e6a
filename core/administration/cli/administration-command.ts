import type { AdministrationTools } from './administration-tools.ts';
import type { AdministrationCommand } from './administration-arguments.ts';
import { runAuditCommand } from './audit-command.ts';
import { runExportCommand } from './export-command.ts';
import { runImportCommand } from './import-command.ts';
import { runRotateSecretsCommand } from './rotate-secrets-command.ts';

/** Runs `weir export`, `weir import`, `weir audit verify` or `weir rotate-secrets` and resolves to its exit code: 0, or 1 when something is wrong. */
export async function runAdministrationCommand(
  command: AdministrationCommand,
  tools: AdministrationTools,
): Promise<number> {
  try {
    if (command.name === 'export') return await runExportCommand(command, tools);
    if (command.name === 'import') return await runImportCommand(command, tools);
    if (command.name === 'rotate-secrets') return await runRotateSecretsCommand(command, tools);
    return await runAuditCommand(command, tools);
  } catch (error) {
    tools.complain(error instanceof Error ? error.message : String(error));
    return 1;
  }
}
