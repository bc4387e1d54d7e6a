import type { IncomingMessage, ServerResponse } from 'node:http';
import { getRequestListener } from '@hono/node-server';
import { Hono } from 'hono';
import type { Metrics } from '../ports/metrics.ts';
import { degradedOf, type Dependencies } from './dependencies.ts';
import type { ReferencePages } from './openapi/document.ts';
import { type HomePages, isPresent, type StaticPage } from './home-page.ts';
import { createHash } from 'node:crypto';
import { isLoopbackAddress, isLoopbackHost } from '../base/host-rules.ts';
import type { GatewayConfig } from '../config/schema.ts';
import { seenOrigin } from '../pipeline/browser.ts';
import type { Directory } from '../ports/directory.ts';
import type { BrowserSessions } from '../access/browser-session.ts';
import { ClientAddresses } from '../connection/client-address.ts';

/**
 * Access check for /status, /metrics, /openapi.json and /docs (`server.operations`): anybody, callers on loopback, or
 * holders of an owner's key, also in the session of a browser. A caller on loopback that names another host is a page in a browser (DNS rebinding), and
 * one with forwarding headers is a proxy on this machine: neither is local. Returns the refusal, or undefined for access.
 */
export function createOperationsAccess(
  server: GatewayConfig['server'],
  directory: Pick<Directory, 'keyByHash'>,
  sessions: Pick<BrowserSessions, 'credential'>,
): (request: IncomingMessage) => string | undefined {
  const prefixes = [server.header_prefix, ...server.header_aliases];
  const headers = prefixes.map((prefix) => `${prefix}-api-key`);
  const addresses = new ClientAddresses(server.trusted_proxies);
  return (request) => {
    if (server.operations === 'open') return undefined;
    if (server.operations === 'loopback' && isLocal(request, addresses)) return undefined;
    const csrf = prefixes
      .map((prefix) => request.headers[`${prefix}-csrf`])
      .find((one) => typeof one === 'string');
    const given = [
      ...headers.map((name) => request.headers[name]),
      bearer(request.headers.authorization),
      csrf && sessions.credential(request.headers.cookie, csrf, originOf(request, server.public_url)),
    ];
    const isOwner = given.some(
      (secret) => typeof secret === 'string' && directory.keyByHash(sha256(secret))?.kind === 'owner',
    );
    if (isOwner) return undefined;
    return `This page needs an owner's key in the header ${headers[0]} or as "Authorization: Bearer KEY" (server.operations: ${server.operations}).`;
  };
}

function originOf({ headers }: IncomingMessage, publicUrl: string | undefined): string {
  return seenOrigin(
    { header: (name) => (name === 'host' ? headers.host : undefined) },
    publicUrl || undefined,
  );
}

/** Scrapers of metrics can send a bearer token, and often no other credential. */
function bearer(authorization: string | undefined): string | undefined {
  return /^bearer\s+(\S+)\s*$/i.exec(authorization ?? '')?.[1];
}

function sha256(secret: string): string {
  return createHash('sha256').update(secret).digest('base64');
}

/** Headers that proxies add about their client. */
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

/** A trusted proxy on this machine connects from loopback too; its client must then be on loopback as well. */
function isLocal({ socket, rawHeaders, headers }: IncomingMessage, addresses: ClientAddresses): boolean {
  const peer = socket.remoteAddress;
  if (peer === undefined || !isLoopbackAddress(peer) || !isLoopbackHost(headers.host ?? '')) return false;
  const isForwarded = forwarding.some((name) => headers[name] !== undefined);
  if (isForwarded && !addresses.trusts(peer)) return false;
  return isLoopbackAddress(addresses.of(peer, rawHeaders));
}

interface OperationsSetup {
  readonly metrics: Pick<Metrics, 'render'>;
  readonly dependencies: Pick<Dependencies, 'look'>;
  /** Reasons why this process cannot serve now, as sentences for any reader; empty when it can. */
  unready(): readonly string[];
  readonly reference: ReferencePages;
  /** Answers of `/` now. */
  home(): HomePages;
  /** Page behind the links of invites. */
  readonly invitePage: StaticPage;
  /** The reason why this caller may not read the pages for operators, or undefined when it may. */
  refusal(request: IncomingMessage): string | undefined;
  status(): Record<string, unknown> | Promise<Record<string, unknown>>;
  readonly draining: () => boolean;
  /** Answers all pages but `/healthz` in another process. Undefined: they are answered here. */
  readonly elsewhere?: ((request: IncomingMessage, response: ServerResponse) => unknown) | undefined;
}

/**
 * The operational pages, un-prefixed and reserved. Returns false for any other path. `OPTIONS` of a guarded one says in
 * `Allow` whether this caller may read it, and is no refusal.
 */
export function createOperations(
  setup: OperationsSetup,
): (path: string, request: IncomingMessage, response: ServerResponse) => boolean {
  const app = new Hono<{ Bindings: { incoming: IncomingMessage } }>();
  const guarded = new Set(['/status', '/metrics', '/openapi.json', '/docs']);
  app.use('*', async (context, next) => {
    if (!guarded.has(context.req.path)) return next();
    const refusal = setup.refusal(context.env.incoming);
    if (context.req.method === 'OPTIONS') {
      // The console shows its pages for operators to those alone who may read them.
      const allow = refusal === undefined ? 'GET, HEAD, OPTIONS' : 'OPTIONS';
      return context.body(null, 204, { allow, 'cache-control': 'no-store' });
    }
    if (refusal === undefined) return next();
    return context.json(
      { error: { message: refusal, type: 'authentication_error', param: null, code: 'key_missing' } },
      401,
    );
  });
  app.use('*', async (context, next) => {
    await next();
    if (setup.draining()) context.header('connection', 'close');
  });
  app.get('/healthz', (context) => context.json({ status: 'ok' }));
  app.get('/readyz', async (context) => {
    const dependencies = await setup.dependencies.look();
    const reasons = setup.unready();
    const draining = setup.draining();
    const ready = !draining && reasons.length === 0;
    const body = {
      status: ready ? 'ready' : draining ? 'draining' : 'not ready',
      ...(reasons.length > 0 && { reasons }),
      degraded: degradedOf(dependencies),
      dependencies,
    };
    return context.json(body, ready ? 200 : 503);
  });
  app.get('/status', async (context) => context.json(await setup.status()));
  app.get('/metrics', async (context) => {
    const { contentType, text } = await setup.metrics.render();
    return context.body(text, 200, { 'content-type': contentType });
  });
  app.get('/', (context) => {
    const wantsPage = context.req.header('accept')?.includes('text/html') === true;
    const { body, headers } = wantsPage ? setup.home().page : setup.home().json;
    return context.body(body, 200, { ...headers });
  });
  for (const [path, read] of [
    ['/openapi.json', setup.reference.document],
    ['/docs', setup.reference.reading],
    ['/invite', () => setup.invitePage],
  ] as const) {
    app.get(path, (context) => {
      const { body, headers } = read();
      return isPresent(context.req.header('if-none-match'), headers['etag'])
        ? context.body(null, 304, { ...headers })
        : context.body(body, 200, { ...headers });
    });
  }
  // Load balancers check health in HTTP/1.0, which has no Host header.
  const listener = getRequestListener(app.fetch, { overrideGlobalObjects: false, hostname: 'localhost' });
  const paths = new Set(['/healthz', '/readyz', '/invite', ...guarded]);
  return (path, request, response) => {
    const isHome = path === '/' && (request.method === 'GET' || request.method === 'HEAD');
    if (!isHome && !paths.has(path)) return false;
    if (setup.elsewhere !== undefined && path !== '/healthz') void setup.elsewhere(request, response);
    else void listener(request, response);
    return true;
  };
}
