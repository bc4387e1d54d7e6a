// A part of the composition root: how the secrets of managers elsewhere are read.
import type { GatewayConfig } from '../core/config/schema.ts';
import type { GuardedFetch } from '../core/ports/transport.ts';
import { TrustedHosts } from '../core/base/host-rules.ts';
import type { SecretManagers } from '../core/ports/secret-managers.ts';
import { createSecretStore, type SecretManagersOptions } from '../adapters/secret-managers/index.ts';

/** Makes the secret managers of each configuration; what they hold is shared. */
export function openSecretManagers(
  options: SecretManagersOptions,
): (security: GatewayConfig['security'], guardedFetch: GuardedFetch) => SecretManagers {
  const store = createSecretStore(options);
  return (security, guardedFetch) =>
    store.within({
      guardedFetch,
      trustedHosts: new TrustedHosts(security.trusted_hosts),
      sources: security.secret_sources,
    });
}
