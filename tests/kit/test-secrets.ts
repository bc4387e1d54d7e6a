import type { SecretBox } from '../../core/ports/secret-managers.ts';
import { createSecretBox, sealingKey } from '../../storage/secrets/key-file.ts';

/** The real box, with a key that every test shares. */
export const testSecrets: SecretBox = createSecretBox({
  current: sealingKey(Buffer.alloc(32, 'a key for tests')),
  previous: [],
});
