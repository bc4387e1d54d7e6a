import type { SecretSources } from '../../core/ports/secret-managers.ts';
import { fieldProblem } from '../credentials/credential-errors.ts';

/** Throws `invalid_request` when the operator has not allowed references to act as the machine. */
export function requireMachine(
  { machine_identity: isAllowed }: SecretSources,
  field: string,
  what: string,
): void {
  if (isAllowed) return;
  throw fieldProblem(
    field,
    `asks for ${what}: the operator allows that with security.secret_sources.machine_identity. Give credentials of your own.`,
  );
}
