import type { CredentialFactory } from '../../core/ports/credentials.ts';
import type { GuardedFetch } from '../../core/ports/transport.ts';
import type { TrustedHosts } from '../../core/base/host-rules.ts';
import type { SecretSources } from '../../core/ports/secret-managers.ts';
import {
  credentialsFailed,
  fieldProblem,
  type TokenFetch,
  type TokenRequest,
  type TokenStep,
  tokenTimeoutMs,
} from '../credentials/credential-context.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';

/** Longest answer of a manager: 1 MiB. */
const maxAnswerBytes = 1_048_576;

/**
 * Requests to hosts that members of an organisation name: public ones and `security.trusted_hosts`; follows no
 * redirect.
 */
export function guardedTokenFetch(guardedFetch: GuardedFetch): TokenFetch {
  return async ({ url, method, headers, body, timeoutMs }) => {
    const { answer } = guardedFetch.fetch({
      url,
      method,
      headers: Object.entries(headers).flat(),
      timeoutMs,
      maxBytes: maxAnswerBytes,
      maxRedirects: 0,
      ...(body !== undefined && { body: Buffer.from(body) }),
    });
    const { status, body: bytes } = await answer;
    return { status, body: bytes.toString('utf8') };
  };
}

/** Failure to read a secret. */
export class ReadFailure extends Error {
  /** `credentials_failed`, for the request that needed the secret. */
  readonly error: GatewayError;
  /** True when the manager was unavailable rather than refusing. An earlier value may stay in use. */
  readonly isAway: boolean;

  constructor(error: GatewayError, isAway: boolean) {
    super(error.message);
    this.error = error;
    this.isAway = isAway;
  }
}

/** The manager refuses, or does not have the secret. */
export function refusedFailure(step: TokenStep, why: string, cause?: unknown): ReadFailure {
  return new ReadFailure(credentialsFailed(step, why, cause), false);
}

/** A manager's answer. */
export interface ManagerAnswer {
  readonly status: number;
  readonly body: string;
}

/**
 * Sends a request to a manager, with a timeout of 10 seconds. Rejects with a `ReadFailure` when the answer is not
 * complete.
 */
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

/** Failure for an answer without a secret, with the manager's message: busy and broken managers may be retried. */
export function noSecretFailure(
  step: TokenStep,
  host: string,
  { status, said, isBusy = false }: { status: number; said: readonly unknown[]; isBusy?: boolean },
): ReadFailure {
  const words = said.filter((one) => typeof one === 'string' && one !== '').join(': ');
  const why = `${host} answered ${status}${words === '' ? '' : ` ${words}`}`;
  return new ReadFailure(credentialsFailed(step, why), isBusy || status === 429 || status >= 500);
}

/** Dependencies of a source of secrets. */
export interface SourceContext {
  readonly credentials: CredentialFactory;
  /**
   * For hosts that the operator or the provider names; hosts named by members of an organisation use the guarded fetch.
   */
  readonly fetch: TokenFetch;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly now: () => number;
  /** Rules of the active configuration. */
  readonly rules: SourceRules;
}

/** Parts of a configuration that apply to reading secrets. */
export interface SourceRules {
  readonly guardedFetch: GuardedFetch;
  readonly trustedHosts: TrustedHosts;
  readonly sources: SecretSources;
}

/** Source of one reference's secret. */
export interface SecretSource {
  /**
   * The secret from the manager. Rejects with a `ReadFailure`, or with another error when the manager was not reached.
   */
  read(rules: SourceRules): Promise<string>;
}

/**
 * The address of a manager, without a trailing slash: https, or http for a host of `security.trusted_hosts`. Throws
 * `invalid_request` for everything else.
 */
export function managerAddress(field: string, text: string, trustedHosts: TrustedHosts): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isPlain =
    url !== undefined && url.username === '' && url.password === '' && url.search === '' && url.hash === '';
  if (!isPlain) throw fieldProblem(field, 'is no address such as "https://vault.example.com".');
  if (url.protocol === 'https:' || (url.protocol === 'http:' && trustedHosts.has(url))) return url;
  throw fieldProblem(
    field,
    'must begin with https://: a secret comes from there. Only hosts of security.trusted_hosts may be asked over http.',
  );
}

/** A path below an address: segments are encoded one by one. */
export function urlBelow({ origin, pathname }: URL, path: string): string {
  const segments = path.split('/').map((segment) => encodeURIComponent(segment));
  return `${origin}${pathname.replace(/\/+$/, '')}/${segments.join('/')}`;
}

/** Throws `invalid_request` unless the operator allows references to use the identity of the machine. */
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
