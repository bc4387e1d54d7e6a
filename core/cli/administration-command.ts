import type { Clock } from '../ports/clock.ts';
import type { AuditRecord, Resources } from '../ports/resources.ts';
import type { SecretBox } from '../ports/secret-box.ts';
import type { AdministrationCommand, StorePlace } from './administration-arguments.ts';
import { runAuditCommand } from './audit-command.ts';
import { runExportCommand } from './export-command.ts';
import { runImportCommand } from './import-command.ts';
import { runRotateSecretsCommand, type RotationTools } from './rotate-secrets-command.ts';

/** A place in an audit chain: number 0 before its first record. */
export interface ChainPlace {
  readonly number: number;
  readonly hash: string;
}

/** What these commands need from outside. Everything rejects with an error whose message is for the operator. */
export interface AdministrationTools extends Pick<RotationTools, 'atKeys'> {
  /**
   * Opens the store of the configuration, and closes it when `use` has settled. An embedded store that is not there is
   * refused, unless it may be new.
   */
  atStore(
    place: StorePlace & { readonly mayBeNew?: boolean },
    use: (resources: Resources) => Promise<number>,
  ): Promise<number>;
  /** The keys of a gateway with this data folder, for the secrets of imported records. */
  secretBox(place: StorePlace): Promise<SecretBox>;
  /** The place before the first record of every chain. */
  readonly chainStart: ChainPlace;
  /** Whether these are the records that were appended after `previous`; the first that is not, and why. */
  verifyChain(
    records: readonly AuditRecord[],
    previous: ChainPlace,
  ): { readonly ok: true } | { readonly ok: false; readonly number: number; readonly reason: string };
  readonly clock: Pick<Clock, 'now'>;
  print(text: string): void;
  complain(text: string): void;
}

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
