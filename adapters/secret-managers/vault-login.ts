import { readFile } from 'node:fs/promises';
import type { SecretQuestion } from '../../core/ports/secret-managers.ts';
import { fieldOf, requireField, type TokenStep } from '../credentials/credential-errors.ts';
import type { TokenFetch } from '../credentials/token-fetch.ts';
import { asArray, asCount, asObject, asText, parseObject } from '../dialects/json-reading.ts';
import { requireMachine } from './machine-identity.ts';
import { below } from './manager-address.ts';
import { askManager, refused, unhelpful } from './read-failure.ts';
import type { SourceContext } from './secret-source.ts';

/** Where a pod finds the token of its service account. */
const serviceAccountFile = '/var/run/secrets/kubernetes.io/serviceaccount/token';
/** A token is not used in the last part of its life. */
const usedPart = 0.8;

/** How a token of HashiCorp Vault is had. */
export interface VaultLogin {
  /** What no message may repeat. */
  readonly secrets: readonly string[];
  /** A token that still serves; with `isRefused`, another one than before where there can be one. */
  token(ask: VaultAsking, isRefused?: boolean): Promise<string | undefined>;
}

/** What logging in needs of the moment. */
export interface VaultAsking {
  readonly fetch: TokenFetch;
  readonly step: TokenStep;
  /** Of every request to the vault. */
  readonly headers: Readonly<Record<string, string>>;
}

/** The login that `vault_auth_type` names: `token`, `approle`, `kubernetes`. Throws `invalid_request` for missing fields. */
export function createVaultLogin(
  vault: URL,
  auth: SecretQuestion['auth'],
  context: SourceContext,
): VaultLogin {
  const type = fieldOf(auth, 'vault_auth_type') ?? 'token';
  if (type === 'token') {
    const token = requireField(auth, 'vault_token', 'vault_auth_type "token" sends it.');
    return {
      secrets: [token],
      token: (_, isRefused = false) => Promise.resolve(isRefused ? undefined : token),
    };
  }
  if (type === 'approle') {
    const roleId = requireField(auth, 'vault_role_id', 'vault_auth_type "approle" logs in with it.');
    const secretId = requireField(auth, 'vault_secret_id', 'vault_auth_type "approle" logs in with it.');
    const form = { role_id: roleId, secret_id: secretId };
    return new LeasedToken(below(vault, 'v1/auth/approle/login'), [secretId], context, () =>
      Promise.resolve(form),
    );
  }
  requireMachine(context.rules.sources, 'vault_auth_type', 'the service account of this machine');
  const role = requireField(auth, 'vault_role', 'vault_auth_type "kubernetes" logs in as it.');
  return new LeasedToken(below(vault, 'v1/auth/kubernetes/login'), [], context, async (step) => ({
    role,
    jwt: await readServiceAccount(step),
  }));
}

/** A token that a login gave for a while. */
class LeasedToken implements VaultLogin {
  readonly secrets: readonly string[];
  readonly #url: string;
  readonly #now: () => number;
  readonly #form: (step: TokenStep) => Promise<Readonly<Record<string, string>>>;
  #held: { readonly token: string; readonly endsAt: number } | undefined;

  constructor(
    url: string,
    secrets: readonly string[],
    { now }: SourceContext,
    form: (step: TokenStep) => Promise<Readonly<Record<string, string>>>,
  ) {
    this.#url = url;
    this.secrets = secrets;
    this.#now = now;
    this.#form = form;
  }

  async token({ fetch, step, headers }: VaultAsking, isRefused = false): Promise<string | undefined> {
    const held = isRefused ? undefined : this.#held;
    if (held !== undefined && this.#now() < held.endsAt) return held.token;
    const form = await this.#form(step);
    const { status, body } = await askManager(fetch, step, {
      ...{ url: this.#url, method: 'POST', body: JSON.stringify(form) },
      headers: { ...headers, 'content-type': 'application/json' },
    });
    const { host } = new URL(this.#url);
    const answer = parseObject(body);
    const given = asObject(answer?.['auth']);
    const token = asText(given?.['client_token']);
    if (status !== 200 || token === undefined || !/^[\x21-\x7e]+$/.test(token)) {
      const said = ['to the login', ...asArray(answer?.['errors'])];
      throw unhelpful(step, host, { status, said });
    }
    const leaseMs = (asCount(given?.['lease_duration']) ?? 0) * 1000;
    this.#held = { token, endsAt: this.#now() + leaseMs * usedPart };
    return token;
  }
}

async function readServiceAccount(step: TokenStep): Promise<string> {
  try {
    return (await readFile(serviceAccountFile, 'utf8')).trim();
  } catch (cause) {
    throw refused(
      step,
      `${serviceAccountFile} cannot be read: vault_auth_type "kubernetes" needs a pod`,
      cause,
    );
  }
}
