import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { BlockList, isIP } from 'node:net';
import type { GatewayConfig } from '../config/schema.ts';
import type { Directory } from '../ports/directory.ts';
import { ClientAddresses } from '../connection/client-address.ts';

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8, 'ipv4');
loopback.addAddress('::1', 'ipv6');

/**
 * Decides who may read /status, /metrics, /openapi.json and /docs (`server.operations`): anybody, callers on loopback, or holders of an
 * owner's key. A caller on loopback that asks for another host is a page in a browser (DNS rebinding), and one with
 * forwarding headers is a proxy on this machine: neither is local. Returns the refusal, or undefined when the caller may.
 */
export function createOperationsAccess(
  server: GatewayConfig['server'],
  directory: Pick<Directory, 'keyByHash'>,
): (request: IncomingMessage) => string | undefined {
  const headers = [server.header_prefix, ...server.header_aliases].map((prefix) => `${prefix}-api-key`);
  const addresses = new ClientAddresses(server.trusted_proxies);
  return (request) => {
    if (server.operations === 'open') return undefined;
    if (server.operations === 'loopback' && isLocal(request, addresses)) return undefined;
    const given = [...headers.map((name) => request.headers[name]), bearer(request.headers.authorization)];
    const isOwner = given.some(
      (secret) => typeof secret === 'string' && directory.keyByHash(sha256(secret))?.kind === 'owner',
    );
    if (isOwner) return undefined;
    return `This page needs an owner's key in the header ${headers[0]} or as "Authorization: Bearer KEY" (server.operations: ${server.operations}).`;
  };
}

/** Scrapers of metrics can send a bearer token, and often nothing else. */
function bearer(authorization: string | undefined): string | undefined {
  return /^bearer\s+(\S+)\s*$/i.exec(authorization ?? '')?.[1];
}

function sha256(secret: string): string {
  return createHash('sha256').update(secret).digest('base64');
}

/** What proxies add about the client that they speak for. */
const forwarding = [
  'cf-connecting-ip',
  'forwarded',
  'true-client-ip',
  'via',
  'x-client-ip',
  'x-forwarded',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-proto',
  'x-real-ip',
];

/** A trusted proxy on this machine connects from loopback too: then its client must be on loopback as well. */
function isLocal({ socket, rawHeaders, headers }: IncomingMessage, addresses: ClientAddresses): boolean {
  const peer = socket.remoteAddress;
  if (peer === undefined || !isLoopback(peer) || !isLoopbackHost(headers.host)) return false;
  const isForwarded = forwarding.some((name) => headers[name] !== undefined);
  if (isForwarded && !addresses.trusts(peer)) return false;
  return isLoopback(addresses.of(peer, rawHeaders));
}

/** `localhost`, `status.localhost`, `127.0.0.1`, `[::1]`, each with a port or without. */
function isLoopbackHost(host: string | undefined): boolean {
  const name = /^(\[[^\]]*\]|[^:]*)(?::\d*)?$/.exec(host ?? '')?.[1]?.toLowerCase() ?? '';
  const address = name.replace(/^\[|\]$/g, '');
  return /(?:^|\.)localhost\.?$/.test(name) || (isIP(address) !== 0 && isLoopback(address));
}

function isLoopback(address: string): boolean {
  const plain = address.startsWith('::ffff:') ? address.slice('::ffff:'.length) : address;
  return loopback.check(plain, plain.includes(':') ? 'ipv6' : 'ipv4');
}
