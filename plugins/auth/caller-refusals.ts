import { RefusedAttempts } from '../../core/http/audit-trail.ts';
import { isTokenError } from '../../core/errors/gateway-error.ts';
import { matchedRoute } from '../../core/pipeline/keys.ts';
import type { Outcome, RequestContext, Scope } from '../../core/pipeline/plugin.ts';
import type { Resources } from '../../core/ports/resources.ts';

const verifying = { id: 'tokens.verify', audit: 'verify' };
const sending = { id: 'requests.send', audit: 'send' };

/**
 * Puts into the audit trail which tokens were refused, whatever was asked for with them, and which keys wanted to send
 * a request to a provider without the scope for it. What is refused at a route of administration is noted there.
 */
export class CallerRefusals {
  private readonly refused: RefusedAttempts;

  constructor(scope: Scope, resources: Resources) {
    this.refused = new RefusedAttempts(scope, resources);
  }

  /** Notes how a request ended. */
  settled(context: RequestContext, outcome: Outcome): void {
    const { error } = outcome;
    if (error === undefined) return;
    if (isTokenError(error)) this.refused.note(context, verifying, outcome);
    else if (error.code === 'scope_missing' && context.get(matchedRoute) === undefined)
      this.refused.note(context, sending, outcome);
  }
}
