/** Memory, handles and sockets of a gateway and its workers, as Linux counts them. */
import { readdir, readFile, readlink } from 'node:fs/promises';
import path from 'node:path';
import { childrenOf, residentBytes } from '../../tests/kit/processes.ts';

/** What the processes of the gateway hold at one moment; embedded engines are none of them. */
export interface Held {
  /** Resident memory in MiB. */
  readonly rss: number;
  /** Open files of every sort, sockets too. */
  readonly handles: number;
  /** Connections of clients. */
  readonly clients: number;
  /** Connections to the provider, which a pool keeps open. */
  readonly upstream: number;
  /** Every other socket: listeners, engines, workers. */
  readonly others: number;
}

const engine = /(pglite|chdb|clickhouse)/;

/** The gateway and its workers: its children without the engines and what they start. */
export async function processesOf(pid: number): Promise<readonly number[]> {
  const children = (await childrenOf(pid)).filter(({ command }) => !engine.test(command));
  return [pid, ...(await Promise.all(children.map((child) => processesOf(child.pid)))).flat()];
}

/** Counts what they hold; `port` is that of the gateway, `upstreamPort` that of its provider. */
export async function heldBy(
  pids: readonly number[],
  { port, upstreamPort }: { readonly port: number; readonly upstreamPort: number },
): Promise<Held> {
  const ends = await socketEnds();
  const held = { rss: 0, handles: 0, clients: 0, upstream: 0, others: 0 };
  for (const pid of pids) {
    held.rss += (await residentBytes(pid)) / 2 ** 20;
    const folder = `/proc/${pid}/fd`;
    for (const name of await readdir(folder).catch(() => [])) {
      const target = await readlink(path.join(folder, name)).catch(() => '');
      if (target === '') continue;
      held.handles += 1;
      const inode = /^socket:\[(\d+)\]$/.exec(target)?.[1];
      if (inode === undefined) continue;
      const end = ends.get(inode);
      if (end?.local === port && end.remote !== 0) held.clients += 1;
      else if (end?.remote === upstreamPort) held.upstream += 1;
      else held.others += 1;
    }
  }
  return held;
}

/** Ports of every TCP socket of this machine by inode; a listener has 0 as the other one. */
async function socketEnds(): Promise<
  ReadonlyMap<string, { readonly local: number; readonly remote: number }>
> {
  const ends = new Map<string, { local: number; remote: number }>();
  for (const file of ['/proc/net/tcp', '/proc/net/tcp6']) {
    const text = await readFile(file, 'utf8').catch(() => '');
    for (const line of text.split('\n').slice(1)) {
      const [, local = '', remote = '', , , , , , , inode = ''] = line.trim().split(/\s+/);
      ends.set(inode, { local: portOf(local), remote: portOf(remote) });
    }
  }
  return ends;
}

function portOf(address: string): number {
  return Number.parseInt(address.slice(address.lastIndexOf(':') + 1), 16);
}
