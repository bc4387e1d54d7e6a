import { readdir, readFile } from 'node:fs/promises';

/** The process of the embedded analytics engine of a gateway, by the gateway's process id. Linux only. */
export async function enginePid(gateway: number): Promise<number> {
  for (const thread of await readdir(`/proc/${gateway}/task`)) {
    const children = await readFile(`/proc/${gateway}/task/${thread}/children`, 'utf8');
    for (const child of children.split(' ').filter((text) => text !== '')) {
      const line = await readFile(`/proc/${child}/cmdline`, 'utf8').catch(() => '');
      if (line.includes('chdb-child')) return Number(child);
    }
  }
  throw new Error(`Process ${gateway} runs no analytics engine.`);
}
