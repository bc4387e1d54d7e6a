import type { CredentialFactory } from '../../core/ports/credentials.ts';
import type { GuardedFetch } from '../../core/ports/transport.ts';
import type { TrustedHosts } from '../../core/base/host-rules.ts';
import type { SecretQuestion, SecretSources } from '../../core/ports/secret-managers.ts';
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

/** Asks hosts that people of an organisation named: public ones and `security.trusted_hosts`; follows no redirect. */
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

/** What a source of secrets is made with. */
export interface SourceContext {
  readonly credentials: CredentialFactory;
  /** For hosts that the operator or the provider names; what people of an organisation name is fetched guarded. */
  readonly fetch: TokenFetch;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly now: () => number;
  /** What the configuration that serves says. */
  readonly rules: SourceRules;
}

/** The part of a configuration that secrets are read by. */
export interface SourceRules {
  readonly guardedFetch: GuardedFetch;
  readonly trustedHosts: TrustedHosts;
  readonly sources: SecretSources;
}

/** Where one reference's secret is read. */
export interface SecretSource {
  /**
   * The secret as the manager has it. Rejects with a `ReadFailure`, or with another error when it did not come so far as
   * to ask.
   */
  read(rules: SourceRules): Promise<string>;
}

/** Makes a source. Throws `invalid_request`, with the field as its `param`, for what cannot be asked. */
export type SourceMaker = (question: SecretQuestion, context: SourceContext) => SecretSource;

/**
 * The address of a manager, without a slash at its end: https, or http for a host of `security.trusted_hosts`. Throws
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

/** A path below it: segments are encoded one by one. */
export function below({ origin, pathname }: URL, path: string): string {
  const segments = path.split('/').map((segment) => encodeURIComponent(segment));
  return `${origin}${pathname.replace(/\/+$/, '')}/${segments.join('/')}`;
}

/** Throws `invalid_request` when the operator has not allowed references to act as the machine. */
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
