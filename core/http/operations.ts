import type { IncomingMessage, ServerResponse } from 'node:http';
import { getRequestListener } from '@hono/node-server';
import { Hono } from 'hono';
import type { Metrics } from '../ports/metrics.ts';
import { degradedOf, type Dependencies } from './dependencies.ts';
import type { ReferencePages } from './openapi/reference-pages.ts';
import type { HomePages } from './home-page.ts';
import { isPresent, type StaticPage } from './static-page.ts';

export interface OperationsSetup {
  readonly metrics: Metrics;
  readonly dependencies: Pick<Dependencies, 'look'>;
  /** Why this process cannot serve now, in sentences for anybody; empty when it can. */
  unready(): readonly string[];
  readonly reference: ReferencePages;
  /** What `/` answers. */
  readonly home: HomePages;
  /** Where the links of invites lead. */
  readonly invitePage: StaticPage;
  /** Says why this caller may not read the pages for operators, or undefined when it may. */
  refusal(request: IncomingMessage): string | undefined;
  status(): Record<string, unknown>;
  readonly draining: () => boolean;
}

/** The operational pages, un-prefixed and reserved. Returns false for any other path. */
export function createOperations(
  setup: OperationsSetup,
): (path: string, request: IncomingMessage, response: ServerResponse) => boolean {
  const app = new Hono<{ Bindings: { incoming: IncomingMessage } }>();
  const guarded = new Set(['/status', '/metrics', '/openapi.json', '/docs']);
  app.use('*', async (context, next) => {
    const refusal = guarded.has(context.req.path) ? setup.refusal(context.env.incoming) : undefined;
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
  app.get('/status', (context) => context.json(setup.status()));
  app.get('/metrics', async (context) => {
    const { contentType, text } = await setup.metrics.render();
    return context.body(text, 200, { 'content-type': contentType });
  });
  app.get('/', (context) => {
    const wantsPage = context.req.header('accept')?.includes('text/html') === true;
    const { body, headers } = wantsPage ? setup.home.page : setup.home.json;
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
  // Load balancers check health in HTTP/1.0, which knows no Host.
  const listener = getRequestListener(app.fetch, { overrideGlobalObjects: false, hostname: 'localhost' });
  const paths = new Set(['/healthz', '/readyz', '/invite', ...guarded]);
  return (path, request, response) => {
    const isHome = path === '/' && (request.method === 'GET' || request.method === 'HEAD');
    if (!isHome && !paths.has(path)) return false;
    void listener(request, response);
    return true;
  };
}
