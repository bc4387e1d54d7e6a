import { GatewayError } from '../../core/pipeline/plugin.ts';

/** Somebody else changed or removed the record in between. */
export function staleVersion(): GatewayError {
  return new GatewayError(
    'version_mismatch',
    'The record was changed or removed while your change was on its way. Read it again, then repeat your change.',
  );
}
