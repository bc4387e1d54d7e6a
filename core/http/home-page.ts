import { createHash } from 'node:crypto';
import { escapeHtml, style } from './openapi/render-reference.ts';

const script = `
const form = document.forms[0], said = document.querySelector('output'), token = location.hash.slice(1);
const say = (text) => { said.textContent = text; };
if (token === '') { form.hidden = true; say('This link was not copied whole: what stands behind the # is missing.'); }
form.addEventListener('submit', async (event) => {
  event.preventDefault();
  form.querySelector('button').disabled = true;
  const names = Object.fromEntries(new FormData(form));
  try {
    const answer = await fetch(document.body.dataset.accept, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ token, ...names }),
    });
    const told = await answer.json();
    if (!answer.ok) throw new Error(told.data?.message ?? told.error?.message ?? 'Refused.');
    form.hidden = true;
    const keys = told.api_keys.map((one) => one.key + '   (workspace ' + one.workspace_id + ')');
    say(['Welcome, ' + told.user.email + '.', ...(keys.length > 0
      ? ['Your keys. They are shown now and never again:', ...keys]
      : ['No key was made for you: ask for one.'])].join('\\n'));
  } catch (error) {
    form.querySelector('button').disabled = false;
    say(error.message);
  }
});
`;

const looks = `${style} label { display: block; margin: .75rem 0; } output { display: block; white-space: pre-wrap; overflow-wrap: anywhere; margin-top: 1rem; }`;

/** The page behind the link of an invite. It receives no secret: the token stays in the fragment, in the browser. */
export function createInvitePage({ base_path: basePath }: { readonly base_path: string }): StaticPage {
  const hash = (text: string): string => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
  return staticPage(
    `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Invitation</title><style>${looks}</style></head>
<body data-accept="${escapeHtml(basePath === '/' ? '' : basePath)}/invites/accept"><h1>You are invited</h1>
<form><label>First name <input name="first_name" maxlength="255" autocomplete="given-name"></label>
<label>Last name <input name="last_name" maxlength="255" autocomplete="family-name"></label>
<button>Accept</button></form><output></output><script>${script}</script></body></html>
`,
    {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': `default-src 'none'; style-src ${hash(looks)}; script-src ${hash(script)}; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
      'referrer-policy': 'no-referrer',
    },
  );
}

/** Answers of `/`: a page for browsers, JSON for other clients. */
export interface HomePages {
  readonly page: StaticPage;
  readonly json: StaticPage;
}

/** Names the service and the addresses of its interface; reveals nothing of the configuration. */
export function createHomePages(
  { base_path: basePath }: { readonly base_path: string },
  { hasConsole }: { readonly hasConsole: boolean },
): HomePages {
  const places = {
    base_url: basePath,
    ...(hasConsole && { console: '/console' }),
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
<ul>${hasConsole ? link('/console', 'the administration in a browser') : ''}${link('/docs', 'the interface, to be read')}${link('/openapi.json', 'the same as OpenAPI')}${link('/healthz', 'alive')}${link('/readyz', 'can serve')}</ul></body></html>
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

/** A constant page. */
export interface StaticPage {
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** A constant page with an ETag: clients cache it and revalidate it each time. */
export function staticPage(body: string, headers: Readonly<Record<string, string>>): StaticPage {
  const etag = `"${createHash('sha256').update(body).digest('base64url').slice(0, 32)}"`;
  return {
    body,
    headers: { ...headers, etag, 'cache-control': 'no-cache', 'x-content-type-options': 'nosniff' },
  };
}

/** Whether the client has the current page already (`If-None-Match`). */
export function isPresent(ifNoneMatch: string | undefined, etag: string | undefined): boolean {
  if (ifNoneMatch === undefined || etag === undefined) return false;
  const known = ifNoneMatch.split(',').map((one) => one.trim().replace(/^W\//, ''));
  return known.includes('*') || known.includes(etag);
}
