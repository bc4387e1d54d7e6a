import { sha256 } from '../../core/base/bytes.ts';
import type { Answer } from '../../core/pipeline/plugin.ts';

/** The pages that people see. */
export const mcpPages = { connect: connectPage, consent: consentPage, end: endPage };

const style = `body{font:16px/1.5 system-ui,sans-serif;max-width:34rem;margin:3rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}
h1{font-size:1.4rem}dt{color:#555;margin-top:.8rem}dd{margin:0;font-weight:600;overflow-wrap:anywhere}
p.warn{border-left:4px solid #b45309;padding-left:.8rem}
button{font:inherit;padding:.5rem 1.4rem;margin:1rem .8rem 0 0;border:1px solid #1d4ed8;border-radius:.4rem;background:#1d4ed8;color:#fff;cursor:pointer}
button[value=deny]{border-color:#555;background:#fff;color:#1a1a1a}`;

/**
 * No scripts, no pictures, no frames. `form-action` is left out: browsers apply it to the redirects behind a form as well,
 * which lead to authorization servers.
 */
const policy = [
  "default-src 'none'",
  `style-src 'sha256-${sha256(style, 'base64')}'`,
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ');

const pageHeaders = [
  ...['content-type', 'text/html; charset=utf-8'],
  ...['content-security-policy', policy],
  ...['x-frame-options', 'DENY'],
  ...['x-content-type-options', 'nosniff'],
  // The address of a page never leaves for another origin; a form of the page says where it comes from.
  ...['referrer-policy', 'same-origin'],
  ...['cache-control', 'no-store'],
];

/** What the user is asked before an account is connected. */
interface ConnectQuestion {
  readonly slug: string;
  /** Of the MCP server. */
  readonly url: string;
  /** Name of the user at the gateway. */
  readonly user: string;
  /** Hidden field of the form. */
  readonly proof: string;
}

/** Asks whether an account may be connected; the form goes to the page's own address. */
function connectPage({ slug, url, user, proof }: ConnectQuestion, headers: readonly string[]): Answer {
  const main = `<p>The gateway will call this MCP server with an account of yours there. You sign in on the next page.</p>
<dl>
<dt>MCP server</dt><dd>${escaped(slug)}</dd>
<dt>Its address</dt><dd>${escaped(url)}</dd>
<dt>Who will use the account through the gateway</dt><dd>${escaped(user)}</dd>
</dl>
<p class="warn">Go on only if this is you, and you have just asked for it in your own client. With a link that somebody sent you, they would get your account.</p>
<form method="post">
<input type="hidden" name="proof" value="${escaped(proof)}">
<button type="submit">Connect</button>
</form>`;
  return page(200, 'Connect an account?', main, headers);
}

/** What the user is asked before an application gets tokens. */
interface Consent {
  /** As the application calls itself; empty for none. */
  readonly name: string;
  /** Host that the application describes itself at; undefined for none. */
  readonly host: string | undefined;
  /** Where the application waits. */
  readonly place: string;
  readonly resourceName: string;
  readonly resource: string;
  readonly scopes: readonly string[];
  /** Address and hidden field of the form. */
  readonly action: string;
  readonly request: string;
}

/** Asks whether an application may act for the user. */
function consentPage(consent: Consent, headers: readonly string[]): Answer {
  const { name, host, place, resourceName, resource, scopes, action, request } = consent;
  const shown = name === '' ? 'An application without a name' : `“${escaped(name)}”`;
  const checked =
    host === undefined
      ? 'The application chose this name itself; it is not checked.'
      : `The application describes itself at ${escaped(host)}.`;
  const main = `<p>${shown} asks for access to ${escaped(resourceName)} in your name. ${checked}</p>
<dl>
<dt>Your sign-in is handed to</dt><dd>${escaped(place)}</dd>
<dt>It may use</dt><dd>${escaped(resource)}</dd>
<dt>Rights</dt><dd>${escaped(scopes.join(', '))}</dd>
</dl>
<p class="warn">Go on only if you have just begun this in that application yourself.</p>
<form method="post" action="${escaped(action)}">
<input type="hidden" name="request" value="${escaped(request)}">
<button type="submit" name="decision" value="allow">Allow</button>
<button type="submit" name="decision" value="deny">Deny</button>
</form>`;
  return page(200, 'Allow access?', main, headers);
}

/** Tells the user how it has ended; `text` says what to do. */
function endPage(status: number, title: string, text: string, headers: readonly string[] = []): Answer {
  return page(status, title, `<p>${escaped(text)}</p>`, headers);
}

function page(status: number, title: string, main: string, headers: readonly string[]): Answer {
  const html = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>${title}</title><style>${style}</style></head>
<body><main><h1>${title}</h1>
${main}
</main></body></html>
`;
  return { status, headers: [...pageHeaders, ...headers], body: Buffer.from(html) };
}

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (one) => `&#${one.charCodeAt(0)};`);
}
