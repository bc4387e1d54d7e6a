import type { Clock } from '../../core/ports/clock.ts';
import type {
  CredentialFactory,
  CredentialFields,
  CredentialKind,
  CredentialOptions,
  Credentials,
} from '../../core/ports/credentials.ts';
import { sha256 } from '../../core/base/bytes.ts';
import type { Transport } from '../../core/ports/transport.ts';
import { createAwsCredentials } from './aws-credentials.ts';
import type { CredentialContext } from './credential-context.ts';
import { createEntraCredentials, createGoogleCredentials } from './cloud-tokens.ts';
import { createHttpTokenFetch } from './http-token-fetch.ts';

export interface CredentialFactoryOptions {
  readonly clock: Clock;
  /** Carries the requests for tokens. */
  readonly transport: Transport;
  /** Variables of the process (`process.env`). */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Upper bound of cached credentials with their tokens; the least recently used are evicted first. Default 1,000. */
  readonly maxRemembered?: number;
}

const makers: Readonly<
  Record<CredentialKind, (fields: CredentialFields, context: CredentialContext) => Credentials>
> = { sigv4: createAwsCredentials, google: createGoogleCredentials, entra: createEntraCredentials };

/** Credentials computed per request: AWS signatures, tokens of Google and Microsoft Entra. */
export function createCredentialFactory(options: CredentialFactoryOptions): CredentialFactory {
  const { clock, transport, environment, maxRemembered = 1_000 } = options;
  const shared = { clock, environment, fetch: createHttpTokenFetch({ transport, clock }) };
  const remembered = new Map<string, Credentials>();
  return {
    create(kind, fields, { machineIdentity = false }: CredentialOptions = {}) {
      const key = keyOf(kind, fields, machineIdentity);
      const credentials = remembered.get(key) ?? makers[kind](fields, { ...shared, machineIdentity });
      remembered.delete(key);
      remembered.set(key, credentials);
      if (remembered.size > maxRemembered) remembered.delete(remembered.keys().next().value as string);
      return credentials;
    },
  };
}

/** A hash, so that cache keys hold no secret. */
function keyOf(kind: CredentialKind, fields: CredentialFields, machineIdentity: boolean): string {
  const entries = Object.entries(fields).sort(([a], [b]) => (a < b ? -1 : 1));
  return sha256(JSON.stringify([kind, machineIdentity, entries]), 'base64');
}
