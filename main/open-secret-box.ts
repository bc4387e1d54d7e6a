// Composition root: the keys that seal secrets.
import type { GatewayConfig } from '../core/config/schema.ts';
import type { Log } from '../core/ports/log.ts';
import type { SecretBox } from '../core/ports/secret-managers.ts';
import { openKeys, type KeyVariables, createSecretBox } from '../storage/secrets/key-file.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** Variables with keys. */
export function keyVariables(environment: Environment): KeyVariables {
  return { current: environment['WEIR_SECRET_KEY'], previous: environment['WEIR_SECRET_KEY_PREVIOUS'] };
}

/** Options of `openSecrets`. */
interface SecretsOptions {
  readonly config: Pick<GatewayConfig, 'storage'>;
  /** The data folder, absolute; this process holds its lock. */
  readonly data: string;
  readonly environment: Environment;
  readonly log: Log;
}

/**
 * Opens the box of secrets at rest. Throws one sentence with the remedy; warns when the key is in a folder that other
 * gateways on the same store do not have.
 */
export async function openSecrets({ config, data, environment, log }: SecretsOptions): Promise<SecretBox> {
  const keys = await openKeys(data, keyVariables(environment));
  const isServer = !/^(none|pglite):/.test(config.storage.resources.url);
  if (!keys.fromVariable && isServer) {
    log.warn(
      'Secrets in the PostgreSQL store are encrypted with a key that exists only in this data folder: another gateway on the same store cannot read them, and they are lost with the folder. Set WEIR_SECRET_KEY to the same key everywhere; the current key is the content of the file.',
      { file: keys.file?.path },
    );
  }
  return createSecretBox(keys);
}
