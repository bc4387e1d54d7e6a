import { GatewayError } from '../../core/errors/gateway-error.ts';
import { driverError, storeError, violatedConstraint } from './database-errors.ts';

/**
 * For `catch` of a statement: `already_exists` with the sentence that `messages` has for the unique constraint that
 * refused the row, any other error as it is. The transaction is lost either way.
 */
export function refusedAsTaken(messages: Readonly<Record<string, string>>): (error: unknown) => never {
  return (error) => {
    const cause = driverError(error);
    const constraint = cause === undefined ? undefined : violatedConstraint(storeError(cause));
    const message = constraint === undefined ? undefined : messages[constraint];
    throw message === undefined ? error : new GatewayError('already_exists', message);
  };
}
