import { readdir, readFile } from 'node:fs/promises';
import { eventually, type WeirProcess } from './process-kit.ts';

/** The process of a gateway's analytics engine, or of its embedded relational store, found in /proc (Linux only). */
export async function engineOf(
  weir: WeirProcess,
  program: 'chdb-child' | 'pglite-child' = 'chdb-child',
): Promise<number> {
  return eventually(async () => {
    for (const entry of await readdir('/proc')) {
      if (!/^\d+$/.test(entry)) continue;
      const [stat = '', command = ''] = await Promise.all(
        ['stat', 'cmdline'].map((name) => readFile(`/proc/${entry}/${name}`, 'utf8').catch(() => '')),
      );
      const parent = Number(stat.split(') ').at(-1)?.split(' ')[1]);
      if (parent === weir.child.pid && command.includes(program)) return Number(entry);
    }
    return undefined;
  });
}
