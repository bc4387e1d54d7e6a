import type { SecretQuestion, SecretSources } from '../../core/ports/secret-managers.ts';
import { credentialsFailed, fieldProblem, type TokenStep } from '../credentials/credential-context.ts';
import { ReadFailure, refused, type SecretSource, type SourceContext } from './secret-source.ts';
import { constants } from 'node:fs';
import { open, realpath } from 'node:fs/promises';
import path from 'node:path';
import { maxSecretBytes } from './held-secret.ts';

/** What a file or folder that is not there, or not for the gateway, is refused with. */
const refusals = new Set(['ENOENT', 'ENOTDIR', 'EACCES', 'EPERM', 'EISDIR', 'ELOOP']);

/** A file below the folder that the operator named: `secret_path` is its path from there. */
export function createFileSource({ secretPath }: SecretQuestion, { rules }: SourceContext): SecretSource {
  const folder = folderOf(rules.sources);
  const segments = secretPath.split('/');
  if (segments.some((one) => one === '' || one === '.' || one === '..' || /[\\\0]/.test(one))) {
    throw fieldProblem(
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
  throw fieldProblem(
    'manager_type',
    'is "file", and the operator lets no file be read: see security.secret_sources.folder.',
  );
}

/** A link may lead about within the folder, as Kubernetes makes them, and not out of it. */
async function readWithin(folder: string, file: string, step: TokenStep): Promise<string> {
  try {
    const [root, real] = await Promise.all([realpath(folder), realpath(file)]);
    if (!real.startsWith(root.endsWith(path.sep) ? root : root + path.sep)) {
      throw refused(step, 'it lies outside of the folder');
    }
    // A pipe would be waited for without end.
    const handle = await open(real, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    try {
      const status = await handle.stat();
      if (!status.isFile()) throw refused(step, 'it is no file');
      if (status.size > maxSecretBytes) throw refused(step, `it is larger than ${maxSecretBytes} bytes`);
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
