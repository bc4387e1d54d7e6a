import type { TestContext } from 'node:test';
import { createGuardedFetch } from '../../../adapters/guarded-fetch/guarded-fetch.ts';
import { type Answer, definePlugin, type JsonObject, Type } from '../../../core/pipeline/plugin.ts';
import { systemClock } from '../../../core/ports/clock.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import { startTestGateway, type TestGatewayOptions } from '../../../tests/kit/gateway-kit.ts';
import type { IdentityProvider } from '../../../tests/kit/identity-provider.ts';
import { testScope } from '../../../tests/kit/plugin-kit.ts';
import auth from '../../auth/index.ts';
import { AuthorizationSchema } from './options.ts';
import { ProtectedResource } from './protected-resource.ts';

/** An MCP server of one tool at every path, behind the protected resource. */
const guardedServers = definePlugin({
  name: 'mcp',
  schema: Type.Object({ authorization: Type.Optional(AuthorizationSchema) }),
  capabilities: { needs: ['key'], reads: ['request.json'] },
  create({ authorization }, scope) {
    const resource = new ProtectedResource(authorization, scope);
    return {
      admit: (context) => resource.admit(context),
      request(context) {
        return resource.request(context) ?? answerOf(context.method, context.json as JsonObject | undefined);
      },
    };
  },
});

function answerOf(method: string, message: JsonObject | undefined): Answer {
  if (method !== 'POST' || message === undefined) return { status: 405, headers: [], body: null };
  const { id, method: asked } = message;
  if (id === undefined) return { status: 202, headers: [], body: null };
  const result =
    asked === 'initialize'
      ? {
          protocolVersion: '2025-06-18',
          capabilities: { tools: {} },
          serverInfo: { name: 'tickets', version: '1' },
        }
      : { tools: [{ name: 'find_ticket', inputSchema: { type: 'object' } }] };
  const body = Buffer.from(JSON.stringify({ jsonrpc: '2.0', id, result }));
  return { status: 200, headers: ['content-type', 'application/json'], body };
}

/** Members of `TestGatewayOptions` and options that a test says otherwise. */
interface GuardedSetup {
  readonly provider?: IdentityProvider;
  /** Of `mcp`, beside the issuer; `false` for none. */
  readonly authorization?: Readonly<Record<string, unknown>> | false;
  /** Of `auth`, beside keys and issuer of the provider. */
  readonly jwt?: Readonly<Record<string, unknown>>;
  readonly keys?: Readonly<Record<string, KeyRecord>>;
  readonly server?: TestGatewayOptions['server'];
  readonly gateway?: Partial<TestGatewayOptions>;
}

/** A gateway whose MCP servers ask for tokens of the provider. Without one, tokens are those of a key set that nobody has. */
export function startGuarded(
  t: TestContext,
  { provider, authorization = {}, jwt = {}, keys = {}, server = {}, gateway = {} }: GuardedSetup = {},
) {
  const issuer = provider?.issuer ?? 'https://id.example.com';
  const jwks_url = provider?.jwksUrl ?? 'https://id.example.com/jwks';
  return startTestGateway(t, {
    keys,
    server,
    guardedFetch: createGuardedFetch({
      log: testScope().scope.log,
      clock: systemClock,
      trustedHosts: provider === undefined ? [] : [provider.host],
    }),
    plugins: [
      { plugin: auth, options: { jwt: { jwks_url, issuer, ...jwt } } },
      {
        plugin: guardedServers,
        options: authorization === false ? {} : { authorization: { issuer, ...authorization } },
      },
    ],
    ...gateway,
  });
}
