import { type Static, Type } from 'typebox';
import { Value } from 'typebox/value';
import { type BrowserSession, BrowserSessions } from '../../core/access/browser-session.ts';
import { isOwnForm, seenOrigin, shortBody, Stopped } from '../../core/pipeline/browser.ts';
import { type Answer, definePlugin, GatewayError, type RequestContext } from '../../core/pipeline/plugin.ts';
import { ConsoleFiles } from './files.ts';
import { OptionsSchema } from './options.ts';
import { SignIn } from './sign-in.ts';

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
        session: shownSession(sessions.read(context.header('cookie'))),
      });
    }

    async function session(context: RequestContext, origin: string): Promise<Answer> {
      const cookies = context.header('cookie');
      if (context.method === 'GET') {
        const current = sessions.read(cookies);
        if (current !== undefined) return json({ session: shownSession(current) });
        const renewed = await signIn?.renew(context, origin);
        return json({ session: shownSession(renewed?.session) }, renewed?.headers);
      }
      if (!isOwnForm(context, origin))
        throw new GatewayError('origin_refused', 'Only pages of the console begin and end sessions.');
      if (context.method === 'POST') {
        const { credential } = await readBody(context);
        const begun = sessions.begin(credential.trim(), origin, keyMs);
        return json({ session: shownSession(begun.session) }, begun.headers);
      }
      if (context.method !== 'DELETE') throw notHere(context);
      return json({ session: null }, [...sessions.end(origin), ...(signIn?.over(origin) ?? [])]);
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
    ],
    body: Buffer.from(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Not signed in</title></head>
<body><h1>Not signed in</h1><p>${text}</p><p><a href="/console">Back to the console</a></p></body></html>
`),
  };
}
