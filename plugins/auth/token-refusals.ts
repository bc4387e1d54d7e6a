import { RefusedAttempts } from '../../core/access/refused-attempts.ts';
import { isTokenError } from '../../core/errors/token-invalid.ts';
import type { Outcome, RequestContext, Scope } from '../../core/pipeline/plugin.ts';
import type { Resources } from '../../core/ports/resources.ts';

const verifying = { id: 'tokens.verify', audit: 'verify' };

/** Puts tokens that were refused into the audit trail, whatever was asked for with them. */
export class TokenRefusals {
  private readonly refused: RefusedAttempts;

  constructor(scope: Scope, resources: Resources) {
    this.refused = new RefusedAttempts(scope, resources);
  }

  /** Notes how a request ended. */
  settled(context: RequestContext, outcome: Outcome): void {
    if (isTokenError(outcome.error)) this.refused.note(context, verifying, outcome);
  }
}
