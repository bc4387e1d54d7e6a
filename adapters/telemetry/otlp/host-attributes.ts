import type { Attributes } from './attributes.ts';

/** `host:port` as two attributes; a port that is not said is that of the scheme. */
export function addHost(list: Attributes, host: string): void {
  const at = /:\d+$/.exec(host)?.index ?? host.length;
  list.string('server.address', host.slice(0, at).slice(0, 255));
  if (at < host.length) list.integer('server.port', Number(host.slice(at + 1)));
}
