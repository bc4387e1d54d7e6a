import type { CredentialFactory } from '../../core/ports/credentials.ts';
import type { GuardedFetch } from '../../core/ports/guarded-fetch.ts';
import type { TrustedHosts } from '../../core/base/host-rules.ts';
import type { SecretQuestion, SecretSources } from '../../core/ports/secret-managers.ts';
import type { TokenFetch } from '../credentials/token-fetch.ts';

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
