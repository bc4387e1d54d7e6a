import { RefusedAttempts } from '../../core/http/refused-attempts.ts';
import { isTokenError } from '../../core/errors/token-invalid.ts';
import { matchedRoute } from '../../core/pipeline/keys.ts';
import type { Outcome, RequestContext, Scope } from '../../core/pipeline/plugin.ts';
import type { Resources } from '../../core/ports/resources.ts';

/** Puts attempts at administration that were refused with 401 or 403 into the audit trail. Those with tokens `auth` notes. */
export class DeniedAttempts {
  private readonly refused: RefusedAttempts;

  constructor(scope: Scope, resources: Resources) {
    this.refused = new RefusedAttempts(scope, resources);
  }

  /** Notes how a request ended. */
  settled(context: RequestContext, outcome: Outcome): void {
    const { status, error } = outcome;
    const route = context.get(matchedRoute);
    if (route === undefined || (status !== 401 && status !== 403) || isTokenError(error)) return;
    this.refused.note(context, route, outcome);
  }
}
