import { GatewayError } from '../../core/errors/gateway-error.ts';
import { credentialsFailed, type TokenStep } from '../credentials/credential-errors.ts';
import { tokenTimeoutMs, type TokenFetch, type TokenRequest } from '../credentials/token-fetch.ts';

/** A secret that was asked for and not given. */
export class ReadFailure extends Error {
  /** `credentials_failed`, for whoever needed the secret. */
  readonly error: GatewayError;
  /** It was not refused: nobody could say. A value from before may stay in use. */
  readonly isAway: boolean;

  constructor(error: GatewayError, isAway: boolean) {
    super(error.message);
    this.error = error;
    this.isAway = isAway;
  }
}

/** The manager says no, or does not know the secret. */
export function refused(step: TokenStep, why: string, cause?: unknown): ReadFailure {
  return new ReadFailure(credentialsFailed(step, why, cause), false);
}

/** What a manager answered. */
export interface ManagerAnswer {
  readonly status: number;
  readonly body: string;
}

/** Asks a manager, for 10 seconds at the most. Rejects with a `ReadFailure` when no whole answer comes. */
export async function askManager(
  fetch: TokenFetch,
  step: TokenStep,
  request: Omit<TokenRequest, 'timeoutMs'>,
): Promise<ManagerAnswer> {
  try {
    return await fetch({ ...request, timeoutMs: tokenTimeoutMs });
  } catch (cause) {
    const why = GatewayError.is(cause) ? cause.message : `${new URL(request.url).host} cannot be asked`;
    const isRefused = GatewayError.is(cause) && cause.code === 'address_refused';
    throw new ReadFailure(credentialsFailed(step, why, cause), !isRefused);
  }
}

/** An answer that holds no secret, in the words of the manager: busy and broken ones can be asked again later. */
export function unhelpful(
  step: TokenStep,
  host: string,
  { status, said, isBusy = false }: { status: number; said: readonly unknown[]; isBusy?: boolean },
): ReadFailure {
  const words = said.filter((one) => typeof one === 'string' && one !== '').join(': ');
  const why = `${host} answered ${status}${words === '' ? '' : ` ${words}`}`;
  return new ReadFailure(credentialsFailed(step, why), isBusy || status === 429 || status >= 500);
}
