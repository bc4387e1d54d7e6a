import { GatewayError } from '../../core/errors/gateway-error.ts';
import { credentialsFailed, type TokenStep } from './credential-errors.ts';

/** One request to a token endpoint. */
export interface TokenRequest {
  readonly url: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  /** For the whole answer. */
  readonly timeoutMs: number;
}

/** Asks a token endpoint; redirects are not followed. Rejects when no whole answer comes. */
export type TokenFetch = (
  request: TokenRequest,
) => Promise<{ readonly status: number; readonly body: string }>;

/** How long a token endpoint may take: 10 seconds. */
export const tokenTimeoutMs = 10_000;

/** The same, with every rejection as `credentials_failed` of this step. */
export async function fetchForStep(
  fetch: TokenFetch,
  step: TokenStep,
  request: Omit<TokenRequest, 'timeoutMs'>,
): Promise<{ readonly status: number; readonly body: string }> {
  try {
    return await fetch({ ...request, timeoutMs: tokenTimeoutMs });
  } catch (cause) {
    const why = GatewayError.is(cause) ? cause.message : `${new URL(request.url).host} could not be asked`;
    throw credentialsFailed(step, why, cause);
  }
}
