import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { BlockList } from 'node:net';
import type { GatewayConfig } from '../config/schema.ts';
import type { Directory } from '../ports/directory.ts';

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8, 'ipv4');
loopback.addAddress('::1', 'ipv6');

/**
 * Decides who may read /status and /metrics (`server.operations`): anybody, callers on loopback, or holders of an
 * owner's key. Returns the refusal, or undefined when the caller may.
 */
export function createOperationsAccess(
  server: GatewayConfig['server'],
  directory: Directory,
): (request: IncomingMessage) => string | undefined {
  const header = `${server.header_prefix}-api-key`;
  return (request) => {
    if (server.operations === 'open') return undefined;
    if (server.operations === 'loopback' && isLoopback(request.socket.remoteAddress)) return undefined;
    const given = request.headers[header];
    const key =
      typeof given === 'string'
        ? directory.keyByHash(createHash('sha256').update(given).digest('base64'))
        : undefined;
    if (key?.kind === 'owner') return undefined;
    return `This page needs an owner's key in the header ${header} (server.operations: ${server.operations}).`;
  };
}

/** A proxy in front of the gateway connects from loopback, too: its own address says nothing of the caller then. */
function isLoopback(address: string | undefined): boolean {
  if (address === undefined) return false;
  const plain = address.startsWith('::ffff:') ? address.slice('::ffff:'.length) : address;
  return loopback.check(plain, plain.includes(':') ? 'ipv6' : 'ipv4');
}
