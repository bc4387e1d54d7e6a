import assert from 'node:assert/strict';
import type { JWTPayload } from 'jose';
import { sign, signingKey } from '../../adapters/tokens/issuer.test-support.ts';
import { createTokens } from '../../adapters/tokens/tokens.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { RecordingMetrics } from '../../core/lifecycle/recording-services.test-support.ts';
import { callerKey } from '../../core/pipeline/keys.ts';
import type { Directory } from '../../core/ports/directory.ts';
import type { TokenVerifier } from '../../core/ports/oauth.ts';
import { TestClock, TestContext, testKey, testScope, testStart } from '../../tests/kit/plugin-kit.ts';
import auth from './index.ts';
import type { TokenOptions } from './token-options.ts';

/** The moment at which test clocks start, in seconds. */
export const seconds = testStart / 1000;
const key = await signingKey('ES256', 'main');
/** Signs with a key that is not in `jwks`. */
export const stranger = await signingKey('ES256', 'elsewhere');
/** The set with the one key that is known. */
export const jwks = { keys: [{ ...key.publicKey }] };
/** Claims that are accepted. */
export const base: JWTPayload = {
  exp: seconds + 3600,
  iss: 'https://id.example',
  sub: 'sub-1',
  email_id: 'ada@example.com',
};
/** A token that is accepted, with these claims on top. */
export const tokenOf = (claims: JWTPayload = {}): Promise<string> => sign(key, { ...base, ...claims });
/** Of a service key. */
export const secret = 'wk_0123456789abcdef';
/** The header with this credential. */
export const bearer = (value: string) => ({ authorization: `Bearer ${value}` });
/** The header with this credential. */
export const service = (value: string) => ({ 'x-service-api-key': value });

/** Options of a test's `auth`. */
export interface Setup {
  readonly jwt?: Partial<TokenOptions>;
  readonly directory?: Partial<Directory>;
}

/** An `auth` whose verifier is the real one, counted. */
export async function guard({ jwt = {}, directory = {} }: Setup = {}) {
  const clock = new TestClock();
  const metrics = new RecordingMetrics();
  const counts = { verified: 0, asked: 0 };
  const state = { version: 1 };
  const tokens = createTokens({ clock, log: testScope().scope.log, fetch: testScope().scope.guardedFetch });
  const plain = testScope().scope;
  const { scope } = testScope({
    clock,
    metrics,
    directory: {
      ...plain.directory,
      keyByHash: (hash) => testScope({ keys: { [secret]: testKey() } }).scope.directory.keyByHash(hash),
      ...directory,
    },
    tokens: {
      verifier(options): TokenVerifier {
        const real = tokens.verifier(options);
        return {
          verify: (token) => ((counts.verified += 1), real.verify(token)),
          accepts: (token) => ((counts.asked += 1), real.accepts(token)),
          keepFresh: () => undefined,
          get version() {
            return state.version;
          },
        };
      },
    },
  });
  const hooks = await auth.create({ jwt: { jwks, ...jwt } }, scope);
  return {
    clock,
    metrics,
    counts,
    state,
    /** Result of one request; `isSync` is false when it had to wait. */
    async request(headers: Record<string, string>) {
      const context = new TestContext({ headers });
      Object.defineProperty(context, 'startedAt', { value: clock.now() });
      const pending = hooks.request?.(context);
      await pending;
      return { context, key: context.get(callerKey), isSync: pending === undefined };
    },
  };
}

/** The error with which a request is refused. */
export async function refusal(answer: Promise<unknown>): Promise<GatewayError> {
  const error = await answer.then(
    () => assert.fail('it was let in'),
    (thrown: unknown) => thrown,
  );
  assert.ok(GatewayError.is(error), String(error));
  return error;
}
