import { existsSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));

/** The named file, the one in this folder, or the one shipped with the gateway. */
export function configFile(named: string | undefined): string {
  const local = path.resolve('gateway.config.yaml');
  if (named !== undefined) return path.resolve(named);
  return existsSync(local) ? local : path.join(root, 'gateway.config.yaml');
}
