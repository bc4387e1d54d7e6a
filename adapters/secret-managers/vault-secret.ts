import type { SecretQuestion } from '../../core/ports/secret-managers.ts';
import { fieldOf, fieldProblem, requireField, type TokenStep } from '../credentials/credential-errors.ts';
import { asArray, asObject, parseObject } from '../dialects/json-reading.ts';
import { guardedTokenFetch } from './guarded-token-fetch.ts';
import { below, managerAddress } from './manager-address.ts';
import { askManager, refused, unhelpful, type ManagerAnswer } from './read-failure.ts';
import type { SecretSource, SourceContext, SourceRules } from './secret-source.ts';
import { createVaultLogin, type VaultAsking, type VaultLogin } from './vault-login.ts';

/** What a versioned engine says to a path without `data/`. */
const wantsData = /versioned K\/V/i;

/**
 * A secret of HashiCorp Vault, engine KV in both versions: `secret_path` begins with the mount (`secret/team/openai`; for
 * version 2 `secret/data/team/openai` means the same). Its text is the JSON of all its members.
 */
export function createVaultSource(
  { auth, secretPath }: SecretQuestion,
  context: SourceContext,
): SecretSource {
  const address = requireField(auth, 'vault_addr', 'it is the address of the vault.');
  const vault = managerAddress('vault_addr', address, context.rules.trustedHosts);
  const path = secretPath.replace(/^\/+|\/+$/g, '').replace(/^v1\//, '');
  const isPath = path.split('/').every((segment) => segment !== '' && segment !== '.' && segment !== '..');
  if (!isPath) throw fieldProblem('secret_path', 'is no path of a vault, such as "secret/team/openai".');
  const namespace = fieldOf(auth, 'vault_namespace');
  if (namespace !== undefined && !/^[\x21-\x7e]+$/.test(namespace)) {
    throw fieldProblem('vault_namespace', 'is no name of a namespace.');
  }
  const login = createVaultLogin(vault, auth, context);
  return new VaultSource({ vault, path, namespace, login });
}

interface VaultPlace {
  readonly vault: URL;
  readonly path: string;
  readonly namespace: string | undefined;
  readonly login: VaultLogin;
}

class VaultSource implements SecretSource {
  readonly #place: VaultPlace;
  readonly #step: TokenStep;
  readonly #headers: Readonly<Record<string, string>>;

  constructor(place: VaultPlace) {
    this.#place = place;
    this.#step = {
      what: `The secret "${place.path}" cannot be read from HashiCorp Vault`,
      remedy: 'Check secret_path, vault_addr, vault_namespace and what the token may read',
      secrets: place.login.secrets,
    };
    const { namespace } = place;
    this.#headers = {
      'x-vault-request': 'true',
      ...(namespace !== undefined && { 'x-vault-namespace': namespace }),
    };
  }

  async read({ guardedFetch }: SourceRules): Promise<string> {
    const { path } = this.#place;
    const asking = { fetch: guardedTokenFetch(guardedFetch), step: this.#step, headers: this.#headers };
    const first = await this.#ask(path, asking);
    const [mount = '', ...rest] = path.split('/');
    if (first.status !== 404 || !wantsData.test(first.body) || rest.length === 0) return this.#valueOf(first);
    return this.#valueOf(await this.#ask([mount, 'data', ...rest].join('/'), asking));
  }

  /** A token that was taken back is replaced, once. */
  async #ask(path: string, asking: VaultAsking): Promise<ManagerAnswer> {
    const { login, vault } = this.#place;
    const url = below(vault, `v1/${path}`);
    let token = await login.token(asking);
    for (let tries = 1; ; tries++) {
      const headers = { ...this.#headers, 'x-vault-token': token ?? '' };
      const answer = await askManager(asking.fetch, this.#step, { url, method: 'GET', headers });
      if (answer.status !== 403 || tries === 2) return answer;
      token = await login.token(asking, true);
      if (token === undefined) return answer;
    }
  }

  #valueOf({ status, body }: ManagerAnswer): string {
    const { host } = this.#place.vault;
    const answer = parseObject(body);
    if (status !== 200) {
      const said = [...asArray(answer?.['errors']), ...asArray(answer?.['warnings'])];
      throw unhelpful(this.#step, host, { status, said });
    }
    const data = asObject(answer?.['data']);
    const isVersioned = asObject(data?.['metadata'])?.['version'] !== undefined;
    const members = isVersioned ? asObject(data?.['data']) : data;
    if (members === undefined) throw refused(this.#step, `${host} answered 200 without a secret`);
    return JSON.stringify(members);
  }
}
