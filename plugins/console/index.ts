import { type Static, Type } from 'typebox';
import { Value } from 'typebox/value';
import { type BrowserSession, BrowserSessions } from '../../core/access/browser-session.ts';
import { isOwnForm, seenOrigin, shortBody, Stopped } from '../../core/pipeline/browser.ts';
import { type Answer, definePlugin, GatewayError, type RequestContext } from '../../core/pipeline/plugin.ts';
import { OptionsSchema, SignIn } from './sign-in.ts';
import { readFile } from 'node:fs/promises';
import { randomBytes } from 'node:crypto';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const maxBodyBytes = 16_384;
const SessionBody = Type.Object({ credential: Type.String({ minLength: 1, maxLength: 8_192 }) });

/**
 * Serves the console at `/console`: pages, and the session of a browser. The pages are a client of the administration API
 * and have no right of their own: each of their requests is judged by the key or token with which the user signed in.
 */
export default definePlugin({
  name: 'console',
  description:
    'Serves the console, the administration in a browser, at `/console`. Users sign in with a key or at an identity provider. Put it into a pipeline of its own with `match: { path: /console/** }`, before the one of providers.',
  schema: OptionsSchema,
  capabilities: { answers: true },
  create(options, scope) {
    const files = new ConsoleFiles();
    const sessions = new BrowserSessions(scope);
    const signIn = options.sign_in && new SignIn(options.sign_in, scope, sessions);
    const keyMs = (options.session_hours ?? 12) * 3_600_000;
    return {
      async request(context) {
        try {
          return await answer(context);
        } catch (error) {
          if (error instanceof Stopped) return stoppedPage(error);
          throw error;
        }
      },
    };

    async function answer(context: RequestContext): Promise<Answer> {
      const { method, path } = context;
      const origin = seenOrigin(context, scope.publicUrl);
      if (path === '/console/session') return session(context, origin);
      if (method !== 'GET' && method !== 'HEAD') throw notHere(context);
      if (signIn !== undefined && path === '/console/sign-in') return signIn.begin(context, origin);
      if (signIn !== undefined && path === '/console/callback') return signIn.end(context, origin);
      const found = await files.asset(context);
      if (found !== undefined) return found;
      return files.page({
        prefix: scope.headerPrefix,
        keyPrefix: scope.keyPrefix,
        basePath: scope.basePath,
        signIn: options.sign_in === undefined ? null : (options.sign_in.label ?? 'Single sign-on'),
        session: shownSession(sessions.read(context.header('cookie'), origin)),
      });
    }

    async function session(context: RequestContext, origin: string): Promise<Answer> {
      const cookies = context.header('cookie');
      if (context.method === 'GET') {
        const current = sessions.read(cookies, origin);
        if (current !== undefined) return json({ session: shownSession(current) });
        const renewed = await signIn?.renew(context, origin);
        return json({ session: shownSession(renewed?.session) }, renewed?.headers);
      }
      if (!isOwnForm(context, origin))
        throw new GatewayError('origin_refused', 'Only pages of the console begin and end sessions.');
      if (context.method === 'POST') {
        const { credential } = await readBody(context);
        const begun = sessions.begin(credential.trim(), origin, keyMs);
        // Cookies left of another sign-in would renew that user's session when this one ends.
        return json({ session: shownSession(begun.session) }, [
          ...begun.headers,
          ...(signIn?.over(origin) ?? []),
        ]);
      }
      if (context.method !== 'DELETE') throw notHere(context);
      const leaving = await signIn?.leave(context, origin);
      return json({ session: null, ...leaving }, [...sessions.end(origin), ...(signIn?.over(origin) ?? [])]);
    }
  },
});

/** A page may know when its session ends, and its token against forged requests; never the credential. */
function shownSession(session: BrowserSession | undefined) {
  return session === undefined
    ? null
    : { csrf: session.csrf, expires_at: new Date(session.until).toISOString() };
}

async function readBody(context: RequestContext): Promise<Static<typeof SessionBody>> {
  const isJson = context.header('content-type')?.startsWith('application/json') === true;
  const text = isJson ? await shortBody(context, maxBodyBytes) : undefined;
  let body: unknown;
  try {
    body = JSON.parse(text ?? '');
  } catch {
    body = undefined;
  }
  if (Value.Check(SessionBody, body)) return body;
  throw new GatewayError(
    'invalid_request',
    'A session begins with {"credential":"KEY"} as application/json: a service key, or a token.',
  );
}

function json(value: unknown, headers: readonly string[] = []): Answer {
  return {
    status: 200,
    headers: ['content-type', 'application/json', 'cache-control', 'no-store', ...headers],
    body: Buffer.from(JSON.stringify(value)),
    isJson: true,
  };
}

function notHere({ method, path }: RequestContext): GatewayError {
  return new GatewayError(
    'route_not_found',
    `The console has no ${method} ${path.slice(0, 200)}. Its pages are at /console; programs use the administration API.`,
  );
}

/** The end of a sign-in that did not succeed. */
function stoppedPage({ status, message }: Stopped): Answer {
  const text = message.replace(/[&<>"']/g, (one) => `&#${one.charCodeAt(0)};`);
  return {
    status,
    headers: [
      ...['content-type', 'text/html; charset=utf-8', 'cache-control', 'no-store'],
      ...['content-security-policy', "default-src 'none'; frame-ancestors 'none'; base-uri 'none'"],
      // Its address may hold a code.
      ...['referrer-policy', 'no-referrer'],
    ],
    body: Buffer.from(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Not signed in</title></head>
<body><h1>Not signed in</h1><p>${text}</p><p><a href="/console">Back to the console</a></p></body></html>
`),
  };
}

/** Where `scripts/build-console.mjs` puts the pages. */
const builtFolder = new URL('../../dist/console/', import.meta.url);
/** Most files that are kept in memory; a build has fewer. */
const mostFiles = 500;
const entry = 'index.html';

const types: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
};

/** A file of the build, with what was compressed when it was built. */
interface BuiltFile {
  readonly type: string;
  readonly plain: Buffer;
  readonly br: Buffer | undefined;
  readonly gzip: Buffer | undefined;
}

const assetPath = /^\/console\/assets\/([\w.-]{1,200})$/;

/** The files of the console. They are read once; a page that is not built yet is looked for at each request. */
export class ConsoleFiles {
  readonly #folder: string;
  readonly #held = new Map<string, BuiltFile>();

  constructor(folder: URL = builtFolder) {
    this.#folder = fileURLToPath(folder);
  }

  /** A file with a hash in its name: browsers keep it for ever. Undefined for a path that names none. */
  async asset(context: RequestContext): Promise<Answer | undefined> {
    const name = assetPath.exec(context.path)?.[1];
    if (name === undefined || name.includes('..')) return undefined;
    const file = await this.#file(path.join('assets', name));
    if (file === undefined) return { status: 404, headers: ['cache-control', 'no-store'], body: null };
    const accepted = context.header('accept-encoding') ?? '';
    const coding =
      /\bbr\b/.test(accepted) && file.br ? 'br' : /\bgzip\b/.test(accepted) && file.gzip ? 'gzip' : '';
    const body = coding === 'br' ? file.br : coding === 'gzip' ? file.gzip : file.plain;
    const headers = ['content-type', file.type, 'cache-control', 'public, max-age=31536000, immutable'];
    headers.push('vary', 'accept-encoding', 'x-content-type-options', 'nosniff');
    if (coding !== '') headers.push('content-encoding', coding);
    return { status: 200, headers, body: context.method === 'HEAD' ? null : (body ?? file.plain) };
  }

  /** The page, whichever place in the console its address names. `facts` are what its script needs to begin. */
  async page(facts: Readonly<Record<string, unknown>>): Promise<Answer> {
    const file = await this.#file(entry);
    if (file === undefined) return waitingPage;
    const nonce = randomBytes(18).toString('base64');
    const html = file.plain
      .toString('utf8')
      .replaceAll('%NONCE%', nonce)
      .replace('%FRAME%', facts.session === null ? 'none' : 'shown')
      .replace('"%FACTS%"', JSON.stringify(facts).replaceAll('<', '\\u003c'));
    return { status: 200, headers: pageHeaders(nonce), body: Buffer.from(html) };
  }

  async #file(name: string): Promise<BuiltFile | undefined> {
    const held = this.#held.get(name);
    if (held !== undefined) return held;
    const place = path.join(this.#folder, name);
    const [plain, br, gzip] = await Promise.all([place, `${place}.br`, `${place}.gz`].map(content));
    if (plain === undefined) return undefined;
    const file = { type: types[path.extname(name)] ?? 'application/octet-stream', plain, br, gzip };
    // A page may be built again while this process runs; files with a hash in their names stay what they are.
    if (name !== entry && this.#held.size < mostFiles) this.#held.set(name, file);
    return file;
  }
}

/** Undefined for a file that is not there. */
async function content(place: string): Promise<Buffer | undefined> {
  try {
    return await readFile(place);
  } catch {
    return undefined;
  }
}

/**
 * Scripts and styles of this page alone; nothing is loaded from elsewhere, nothing frames it. Images of requests
 * (`data:`) are shown in log entries.
 */
function pageHeaders(nonce: string): readonly string[] {
  const policy = [
    "default-src 'none'",
    `script-src 'nonce-${nonce}' 'strict-dynamic'`,
    `style-src 'self' 'nonce-${nonce}'`,
    "img-src 'self' data: blob:",
    'media-src data: blob:',
    "font-src 'self'",
    "connect-src 'self'",
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join('; ');
  return [
    ...['content-type', 'text/html; charset=utf-8'],
    ...['content-security-policy', policy],
    ...['x-frame-options', 'DENY'],
    ...['x-content-type-options', 'nosniff'],
    ...['referrer-policy', 'same-origin'],
    ...['cache-control', 'no-store'],
    ...['cross-origin-opener-policy', 'same-origin'],
  ];
}

const waitingPage: Answer = {
  status: 503,
  headers: [
    ...['content-type', 'text/html; charset=utf-8'],
    ...['content-security-policy', "default-src 'none'; frame-ancestors 'none'; base-uri 'none'"],
    ...['refresh', '3'],
    ...['retry-after', '3'],
    ...['cache-control', 'no-store'],
  ],
  body: Buffer.from(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>The console is not built yet</title></head>
<body><h1>The console is not built yet</h1>
<p><code>npm start</code> builds it once, in the background; this page looks again every three seconds. The gateway serves
meanwhile. Build it by hand with <code>node scripts/build-console.mjs</code>, which says what is wrong.</p></body></html>
`),
};
