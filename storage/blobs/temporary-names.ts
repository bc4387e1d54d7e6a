import { createHash, randomUUID } from 'node:crypto';
import { readdir, rm } from 'node:fs/promises';
import { hostname } from 'node:os';
import path from 'node:path';

/** Folders may be shared between machines, whose processes have numbers of their own. */
const machine = createHash('sha256').update(hostname()).digest('hex').slice(0, 12);
const mark = /^([0-9a-f]{12})-(\d+)-[0-9a-f-]{36}\.tmp$/;
const inUse = new Set<string>();

/** A name beside the file for what is not whole yet; in use until `release`. */
export function temporaryName(target: string): string {
  const name = `${target}.${machine}-${process.pid}-${randomUUID()}.tmp`;
  inUse.add(name);
  return name;
}

/** Says that nothing is written under the name any more. */
export function release(name: string): void {
  inUse.delete(name);
}

/** Removes what processes of this machine that were killed have left beside the file. */
export async function removeAbandoned(target: string): Promise<void> {
  const [folder, prefix] = [path.dirname(target), `${path.basename(target)}.`];
  for (const name of await readdir(folder)) {
    const [, where, pid] = mark.exec(name.startsWith(prefix) ? name.slice(prefix.length) : '') ?? [];
    if (where !== machine || isAlive(Number(pid), path.join(folder, name))) continue;
    await rm(path.join(folder, name), { force: true });
  }
}

function isAlive(pid: number, name: string): boolean {
  // A process of a container often has the number of the one before it.
  if (pid === process.pid) return inUse.has(name);
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}
