import { createHash } from 'node:crypto';
import { escapeHtml } from './openapi/render-schema.ts';
import { style } from './openapi/reference-style.ts';
import { staticPage, type StaticPage } from './static-page.ts';

/** What `/` answers: a page for browsers, JSON for everything else. */
export interface HomePages {
  readonly page: StaticPage;
  readonly json: StaticPage;
}

/** Says what serves here and where its interface is; nothing of how it is configured. */
export function createHomePages({ base_path: basePath }: { readonly base_path: string }): HomePages {
  const places = {
    base_url: basePath,
    reference: '/docs',
    openapi: '/openapi.json',
    alive: '/healthz',
    ready: '/readyz',
  };
  const link = (path: string, text: string): string => `<li><a href="${path}">${path}</a>: ${text}</li>`;
  const vary = { vary: 'accept' };
  const page = staticPage(
    `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Weir</title><style>${style}</style></head>
<body><h1>Weir</h1><p>A gateway in front of model providers serves here. Clients use the base URL
<code>${escapeHtml(basePath)}</code> of this address, with a key of this gateway.</p>
<ul>${link('/docs', 'the interface, to be read')}${link('/openapi.json', 'the same as OpenAPI')}${link('/healthz', 'alive')}${link('/readyz', 'can serve')}</ul></body></html>
`,
    {
      ...vary,
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': `default-src 'none'; style-src 'sha256-${createHash('sha256').update(style).digest('base64')}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
      'referrer-policy': 'no-referrer',
    },
  );
  const json = staticPage(`${JSON.stringify({ service: 'weir', ...places })}\n`, {
    ...vary,
    'content-type': 'application/json',
  });
  return { page, json };
}
