import { GatewayError } from '../../errors/gateway-error.ts';
import type { Clock } from '../../ports/clock.ts';
import type { TryOptions } from '../../pipeline/router.ts';

/** The bounds of one try that reach across its phases. Made only for tries that have one. */
export class TryTimers {
  private cancelWhole: (() => void) | undefined;
  private cancelToken: (() => void) | undefined;

  /** The first that runs out calls `cut` with the error that the client is to see. */
  constructor(
    { requestTimeoutMs, firstTokenTimeoutMs }: TryOptions,
    clock: Clock,
    cut: (error: GatewayError) => void,
  ) {
    if (requestTimeoutMs > 0) {
      this.cancelWhole = clock.after(requestTimeoutMs, () => {
        this.over();
        cut(
          new GatewayError(
            'request_timeout',
            `Request exceeded the timeout sent in the request: ${requestTimeoutMs}ms`,
          ),
        );
      });
    }
    if (firstTokenTimeoutMs > 0) {
      this.cancelToken = clock.after(firstTokenTimeoutMs, () => {
        this.over();
        cut(
          new GatewayError(
            'upstream_timeout',
            `The provider sent no token within ${firstTokenTimeoutMs} ms (first_token_timeout).`,
            { source: 'provider' },
          ),
        );
      });
    }
  }

  /** The first token has come. */
  firstToken(): void {
    this.cancelToken?.();
    this.cancelToken = undefined;
  }

  /** The try has ended. */
  over(): void {
    this.firstToken();
    this.cancelWhole?.();
    this.cancelWhole = undefined;
  }
}
