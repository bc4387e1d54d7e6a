import type { SecretQuestion, SecretSources } from '../../core/ports/secret-managers.ts';
import { fieldProblem, type TokenStep } from '../credentials/credential-errors.ts';
import { refused } from './read-failure.ts';
import type { SecretSource, SourceContext } from './secret-source.ts';

/** The gateway's own variables are nobody's secret references, whatever the prefix. */
const ownPrefix = 'WEIR_';

/** A variable of the process: `secret_path` is its name. */
export function createEnvironmentSource(
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
        ? Promise.reject(refused(step, 'it is not set'))
        : Promise.resolve(value);
    },
  };
}

function requireReadable(name: string, { environment_prefix: prefix }: SecretSources): void {
  if (prefix === '') {
    throw fieldProblem(
      'manager_type',
      'is "environment", and the operator lets no variable be read: see security.secret_sources.environment_prefix.',
    );
  }
  if (name.startsWith(prefix) && !name.startsWith(ownPrefix) && /^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) return;
  throw fieldProblem(
    'secret_path',
    `must be the name of a variable that begins with "${prefix}" (security.secret_sources.environment_prefix)${ownPrefix.startsWith(prefix) || prefix.startsWith(ownPrefix) ? `, and not with "${ownPrefix}"` : ''}.`,
  );
}
