import type { Clock } from '../../core/ports/clock.ts';
import { fieldProblem } from './credential-errors.ts';
import type { TokenFetch } from './token-fetch.ts';

/** What credentials need from outside. */
export interface CredentialContext {
  readonly clock: Clock;
  readonly fetch: TokenFetch;
  /** Variables of the process; only those named in the documentation of a credential are read. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** The operator wrote the fields: identities of the machine may be used, and addresses within them are trusted. */
  readonly machineIdentity: boolean;
}

/** Throws `invalid_request` when fields that a request brought would act as the machine. */
export function requireMachineIdentity(
  { machineIdentity }: CredentialContext,
  field: string,
  what: string,
): void {
  if (machineIdentity) return;
  throw fieldProblem(
    field,
    `asks for ${what}, which only a provider of the configuration may use. Send credentials of your own.`,
  );
}

/**
 * An environment variable that names a host or URL. Throws `invalid_request` for one that is neither https nor loopback.
 */
export function endpointOf(
  { environment }: Pick<CredentialContext, 'environment'>,
  variable: string,
  fallback: string,
): string {
  const value = environment[variable]?.trim() || fallback;
  const url = URL.canParse(value) ? new URL(value) : undefined;
  if (url === undefined || (value !== fallback && url.protocol !== 'https:' && !isLoopback(url))) {
    throw fieldProblem(variable, 'is no https URL. Correct the environment variable, or unset it.');
  }
  return value.replace(/\/+$/, '');
}

/** Plain HTTP to this machine. */
export function isLoopback(url: URL): boolean {
  return url.protocol === 'http:' && ['127.0.0.1', '[::1]', 'localhost'].includes(url.hostname);
}
