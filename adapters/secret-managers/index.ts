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
  type SecretSources,
} from '../../core/ports/secret-managers.ts';
import type { Transport } from '../../core/ports/transport.ts';
import { credentialField, credentialsFailed, type TokenStep } from '../credentials/credential-context.ts';
import { createHttpTokenFetch } from '../credentials/http-token-fetch.ts';
import {
  ReadFailure,
  refusedFailure,
  type SecretSource,
  secretSources,
  type SourceContext,
  type SourceRules,
} from './manager-sources.ts';
import { constants } from 'node:fs';
import { open, realpath } from 'node:fs/promises';
import path from 'node:path';
import { parseObject } from '../dialects/json-reading.ts';

/** Errors of a file or folder that is absent or not accessible to the gateway. */
const refusals = new Set(['ENOENT', 'ENOTDIR', 'EACCES', 'EPERM', 'EISDIR', 'ELOOP']);

/** A file below the folder set by the operator: `secret_path` is its relative path. */
function createFileSource({ secretPath }: SecretQuestion, { rules }: SourceContext): SecretSource {
  const folder = folderOf(rules.sources);
  const segments = secretPath.split('/');
  if (segments.some((one) => one === '' || one === '.' || one === '..' || /[\\\0]/.test(one))) {
    throw credentialField.problem(
      'secret_path',
      'must be the path of a file below security.secret_sources.folder, such as "team/openai".',
    );
  }
  const step: TokenStep = {
    what: `The file "${secretPath}" cannot be read`,
    remedy: 'Put it into security.secret_sources.folder, readable for the gateway, or correct secret_path',
    secrets: [],
  };
  return { read: () => readWithin(folder, path.join(folder, ...segments), step) };
}

function folderOf({ folder }: SecretSources): string {
  if (folder !== '') return folder;
  throw credentialField.problem(
    'manager_type',
    'is "file", and the operator lets no file be read: see security.secret_sources.folder.',
  );
}

/** A link may point anywhere within the folder, as Kubernetes creates them, but not outside it. */
async function readWithin(folder: string, file: string, step: TokenStep): Promise<string> {
  try {
    const [root, real] = await Promise.all([realpath(folder), realpath(file)]);
    if (!real.startsWith(root.endsWith(path.sep) ? root : root + path.sep)) {
      throw refusedFailure(step, 'it lies outside of the folder');
    }
    // Reading a pipe would block forever.
    const handle = await open(real, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    try {
      const status = await handle.stat();
      if (!status.isFile()) throw refusedFailure(step, 'it is no file');
      if (status.size > maxSecretBytes)
        throw refusedFailure(step, `it is larger than ${maxSecretBytes} bytes`);
      return (await handle.readFile('utf8')).replace(/\r?\n$/, '');
    } finally {
      await handle.close();
    }
  } catch (cause) {
    if (cause instanceof ReadFailure) throw cause;
    const { code = 'an unknown error' } = cause as NodeJS.ErrnoException;
    throw new ReadFailure(credentialsFailed(step, code, cause), !refusals.has(code));
  }
}

/** The gateway's own variables are never readable by secret references, with any prefix. */
const ownPrefix = 'WEIR_';

/** A variable of the process: `secret_path` is its name. */
function createEnvironmentSource(
  { secretPath }: SecretQuestion,
  { rules, environment }: SourceContext,
): SecretSource {
  requireReadable(secretPath, rules.sources);
  const step: TokenStep = {
    what: `The environment variable "${secretPath}" cannot be read`,
    remedy: 'Set it for the process of the gateway, or correct secret_path',
    secrets: [],
  };
  return {
    read() {
      const value = Object.hasOwn(environment, secretPath) ? environment[secretPath] : undefined;
      return value === undefined || value === ''
        ? Promise.reject(refusedFailure(step, 'it is not set'))
        : Promise.resolve(value);
    },
  };
}

function requireReadable(name: string, { environment_prefix: prefix }: SecretSources): void {
  if (prefix === '') {
    throw credentialField.problem(
      'manager_type',
      'is "environment", and the operator lets no variable be read: see security.secret_sources.environment_prefix.',
    );
  }
  if (name.startsWith(prefix) && !name.startsWith(ownPrefix) && /^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) return;
  throw credentialField.problem(
    'secret_path',
    `must be the name of a variable that begins with "${prefix}" (security.secret_sources.environment_prefix)${ownPrefix.startsWith(prefix) || prefix.startsWith(ownPrefix) ? `, and not with "${ownPrefix}"` : ''}.`,
  );
}

/** Upper bound of cached secrets; the least recently used are evicted first. */
const maxHeld = 1_000;

/** Dependencies of secret managers. */
export interface SecretManagersOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** Carries requests to AWS. */
  readonly transport: Transport;
  /** Signs for AWS, and obtains tokens of Microsoft Entra. */
  readonly credentials: CredentialFactory;
  /** Variables of the process (`process.env`). */
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/** The secrets of a process: they outlive its configurations. */
interface SecretStore {
  /** Secret managers under the rules of a configuration. */
  within(rules: SourceRules): SecretManagers;
}

const makers: Readonly<Record<SecretQuestion['managerType'], SourceMaker>> = {
  aws_sm: secretSources.aws,
  azure_kv: secretSources.azure,
  hashicorp_vault: secretSources.vault,
  environment: createEnvironmentSource,
  file: createFileSource,
};

interface Entry {
  readonly version: number;
  readonly rules: SourceRules;
  readonly held: HeldSecret;
  readonly source: SecretSource;
}

/** Reads secrets from external managers, and caches them. */
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
      const named = credentialField.problem(param ?? '', '').message;
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

  /** A value stays in use across configurations, as long as the new configuration reads the same source. */
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

/** Longest secret: 64 KiB, the limit of AWS. */
const maxSecretBytes = 65_536;

/** At this age a value is renewed in the background … */
const renewAfterMs = 240_000;
/** … and at this age requests wait for a new one. */
const retireAfterMs = 300_000;
/** Except while the manager is unavailable: then the value is used for up to a day. */
const keepAfterMs = 86_400_000;
/** Pause before an unavailable manager is called again; without a usable value, one second. */
const awayHoldMs = 10_000;
const failureHoldMs = 1_000;
const maxMembers = 64;

/** Dependencies and settings of a held secret. */
interface HeldSecretOptions {
  readonly clock: Clock;
  /** Log with the name of the reference. */
  readonly log: Log;
}

type Read = () => Promise<string>;

/** One secret, cached and renewed. Only one read runs at a time; all waiting callers share it. */
class HeldSecret {
  readonly #clock: Clock;
  readonly #log: Log;
  #value: SecretValue | undefined;
  #pending: Promise<SecretValue> | undefined;
  #failure: { readonly error: GatewayError; readonly atMs: number; readonly isAway: boolean } | undefined;

  constructor({ clock, log }: HeldSecretOptions) {
    this.#clock = clock;
    this.#log = log;
  }

  /** The value, synchronously when a usable one is cached; else a promise, which rejects with `credentials_failed`. */
  get(read: Read): SecretValue | Promise<SecretValue> {
    const value = this.#value;
    if (value === undefined) return this.#renew(read);
    const age = this.#ageOf(value);
    if (age < renewAfterMs) return value;
    const renewed = this.#renew(read);
    const mayStay = age < retireAfterMs || (this.#failure?.isAway === true && age < keepAfterMs);
    if (!mayStay) return renewed;
    // No request waits for this renewal; the next request that has to wait gets its error.
    renewed.catch(() => undefined);
    return value;
  }

  /**
   * Uses the clock that advanced further: the wall clock may be set back, the monotonic clock stops while the machine
   * sleeps.
   */
  #ageOf({ wallMs, monotonicMs }: SecretValue): number {
    return Math.max(this.#clock.now() - wallMs, this.#clock.monotonic() - monotonicMs);
  }

  #renew(read: Read): Promise<SecretValue> {
    const failure = this.#failure;
    const holdMs = this.#value === undefined ? failureHoldMs : awayHoldMs;
    if (failure !== undefined && this.#clock.monotonic() - failure.atMs < holdMs)
      return Promise.reject(failure.error);
    this.#pending ??= this.#readOnce(read);
    return this.#pending;
  }

  async #readOnce(read: Read): Promise<SecretValue> {
    try {
      const text = await read();
      if (Buffer.byteLength(text) > maxSecretBytes) throw tooLarge();
      if (this.#failure?.isAway === true) this.#log.info('The manager of a secret answers again');
      this.#failure = undefined;
      this.#value = new SecretValue(text, this.#clock);
      return this.#value;
    } catch (thrown) {
      return this.#failed(thrown);
    } finally {
      this.#pending = undefined;
    }
  }

  #failed(thrown: unknown): SecretValue {
    const { error, isAway } = failureOf(thrown);
    const wasAway = this.#failure?.isAway === true;
    this.#failure = { error, isAway, atMs: this.#clock.monotonic() };
    const value = this.#value;
    if (value === undefined) throw error;
    if (isAway && this.#ageOf(value) < keepAfterMs) {
      if (!wasAway) {
        this.#log.warn('The manager of a secret cannot be asked; the value from before stays in use', {
          error: error.message,
        });
      }
      return value;
    }
    this.#value = undefined;
    this.#log.warn('A secret is not used any more: its manager does not give it', { error: error.message });
    throw error;
  }
}

/** A secret value with its requested JSON members. */
class SecretValue {
  readonly text: string;
  readonly wallMs: number;
  readonly monotonicMs: number;
  readonly #members = new RecentMap<string>(maxMembers);

  constructor(text: string, clock: Clock) {
    this.text = text;
    this.wallMs = clock.now();
    this.monotonicMs = clock.monotonic();
  }

  /**
   * The member of this name, as JSON when it is not a text; the whole value for an empty name. Throws
   * `credentials_failed`.
   */
  member(name: string, path: string): string {
    if (name === '') return this.text;
    const known = this.#members.get(name);
    if (known !== undefined) return known;
    const object = parseObject(this.text);
    if (object === undefined) throw noMember(path, 'is no JSON object', name);
    const value = Object.hasOwn(object, name) ? object[name] : undefined;
    if (value === undefined || value === null) throw noMember(path, 'has no such member', name);
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    this.#members.set(name, text);
    return text;
  }
}

function failureOf(thrown: unknown): { readonly error: GatewayError; readonly isAway: boolean } {
  if (thrown instanceof ReadFailure) return thrown;
  // The manager was not reached: no token was available.
  if (GatewayError.is(thrown)) return { error: thrown, isAway: true };
  const error = new GatewayError('credentials_failed', 'A secret cannot be read.', { cause: thrown });
  return { error, isAway: true };
}

function tooLarge(): ReadFailure {
  const message = `A secret is larger than ${maxSecretBytes} bytes. Store a smaller one in its manager.`;
  return new ReadFailure(new GatewayError('credentials_failed', message), false);
}

function noMember(path: string, why: string, name: string): GatewayError {
  return new GatewayError(
    'credentials_failed',
    `The secret "${path}" ${why}, and "${name}" of it is asked for. Check secret_key.`,
  );
}

/** Creates a source. Throws `invalid_request`, with the field as its `param`, for invalid settings. */
type SourceMaker = (question: SecretQuestion, context: SourceContext) => SecretSource;
