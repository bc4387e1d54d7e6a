import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { CredentialFactory } from '../../core/ports/credentials.ts';
import type { Log } from '../../core/ports/log.ts';
import { RecentMap } from '../../core/base/recent-map.ts';
import type { StoredRecord } from '../../core/ports/records.ts';
import {
  type SecretBox,
  secretContext,
  type SecretManagers,
  type SecretQuestion,
} from '../../core/ports/secret-managers.ts';
import type { Transport } from '../../core/ports/transport.ts';
import { fieldProblem } from '../credentials/credential-context.ts';
import { createHttpTokenFetch } from '../credentials/http-token-fetch.ts';
import { createAwsSource, createAzureSource } from './cloud-secrets.ts';
import { createEnvironmentSource, createFileSource } from './local-secrets.ts';
import { HeldSecret } from './held-secret.ts';
import type { SecretSource, SourceContext, SourceMaker, SourceRules } from './secret-source.ts';
import { createVaultSource } from './vault-secret.ts';

/** Secrets that are held at once; the least recently used go first. */
const maxHeld = 1_000;

/** What secret managers are asked with. */
export interface SecretManagersOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** Carries what goes to AWS. */
  readonly transport: Transport;
  /** Signs for AWS, and gets tokens of Microsoft Entra. */
  readonly credentials: CredentialFactory;
  /** Variables of the process (`process.env`). */
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/** The secrets of a process: they outlive its configurations. */
interface SecretStore {
  /** Secret managers as a configuration lets them be asked. */
  within(rules: SourceRules): SecretManagers;
}

const makers: Readonly<Record<SecretQuestion['managerType'], SourceMaker>> = {
  aws_sm: createAwsSource,
  azure_kv: createAzureSource,
  hashicorp_vault: createVaultSource,
  environment: createEnvironmentSource,
  file: createFileSource,
};

interface Entry {
  readonly version: number;
  readonly rules: SourceRules;
  readonly held: HeldSecret;
  readonly source: SecretSource;
}

/** Reads secrets from managers elsewhere, and keeps them for a while. */
export function createSecretStore(options: SecretManagersOptions): SecretStore {
  const { clock, transport, credentials, environment } = options;
  const entries = new RecentMap<Entry>(maxHeld);
  const shared = {
    credentials,
    environment,
    now: () => clock.monotonic(),
    fetch: createHttpTokenFetch({ transport, clock }),
  };
  return { within: (rules) => new ConfiguredManagers(options, { ...shared, rules }, entries) };
}

class ConfiguredManagers implements SecretManagers {
  readonly #options: SecretManagersOptions;
  readonly #context: SourceContext;
  readonly #entries: RecentMap<Entry>;

  constructor(options: SecretManagersOptions, context: SourceContext, entries: RecentMap<Entry>) {
    this.#options = options;
    this.#context = context;
    this.#entries = entries;
  }

  refusal(question: SecretQuestion): { readonly path: string; readonly message: string } | undefined {
    try {
      makers[question.managerType](question, this.#context);
      return undefined;
    } catch (error) {
      if (!GatewayError.is(error) || error.code !== 'invalid_request') throw error;
      const { param, message } = error;
      const field = param === 'secret_path' || param === 'manager_type' ? param : `auth_config/${param}`;
      const named = fieldProblem(param ?? '', '').message;
      return {
        path: `/${field}`,
        message: message.startsWith(named) ? message.slice(named.length) : message,
      };
    }
  }

  value(
    reference: StoredRecord<'secret_reference'>,
    secrets: SecretBox,
    secretKey = '',
  ): string | Promise<string> {
    const { secretPath, secretKey: ownKey } = reference.data;
    const { held, source } = this.#entryOf(reference, secrets);
    const member = secretKey === '' ? ownKey : secretKey;
    const value = held.get(() => source.read(this.#context.rules));
    return value instanceof Promise
      ? value.then((one) => one.member(member, secretPath))
      : value.member(member, secretPath);
  }

  /** A value that was read stays in use across configurations, as long as a source of the new one reads the same. */
  #entryOf(reference: StoredRecord<'secret_reference'>, secrets: SecretBox): Entry {
    const { id, version } = reference;
    const known = this.#entries.touch(id);
    const { rules } = this.#context;
    const isSame = known !== undefined && known.version === version;
    if (isSame && known.rules === rules) return known;
    const source = this.#sourceOf(reference, secrets);
    const isKept = isSame && known.rules.sources.folder === rules.sources.folder;
    const held = isKept ? known.held : this.#newHeld(reference);
    const entry: Entry = { version, rules, held, source };
    this.#entries.set(id, entry);
    return entry;
  }

  #newHeld({ id, slug, data }: StoredRecord<'secret_reference'>): HeldSecret {
    const { clock, log } = this.#options;
    const named = { secret_reference: slug, secret_reference_id: id, manager: data.managerType };
    return new HeldSecret({ clock, log: log.child(named) });
  }

  #sourceOf(reference: StoredRecord<'secret_reference'>, secrets: SecretBox): SecretSource {
    const { managerType, authConfig, secretPath } = reference.data;
    const auth: Record<string, string> = {};
    for (const [name, value] of Object.entries(authConfig)) if (typeof value === 'string') auth[name] = value;
    for (const [name, sealed] of Object.entries(reference.secrets))
      auth[name] = secrets.open(sealed, secretContext(reference.id, name));
    try {
      return makers[managerType]({ managerType, auth, secretPath }, this.#context);
    } catch (cause) {
      if (!GatewayError.is(cause) || cause.code !== 'invalid_request') throw cause;
      throw new GatewayError(
        'credentials_failed',
        `The secret reference "${reference.slug}" cannot be used: ${cause.message}`,
        { cause },
      );
    }
  }
}
