import type { TestContext } from 'node:test';
import { createGuardedFetch } from '../../../adapters/guarded-fetch/guarded-fetch.ts';
import { createMcpClients } from '../../../adapters/mcp/create-mcp-clients.ts';
import { createOauthClients } from '../../../adapters/oauth/create-oauth-clients.ts';
import { createUndiciTransport } from '../../../adapters/transport/undici-transport.ts';
import {
  realClock,
  recordingLog,
  RecordingMetrics,
} from '../../../core/lifecycle/recording-services.test-support.ts';
import type { GuardedFetch } from '../../../core/ports/transport.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import { startTestGateway, type TestGatewayOptions } from '../../../tests/kit/gateway-kit.ts';
import type { IdentityProvider } from '../../../tests/kit/identity-provider.ts';
import { startMcpServer } from '../../../tests/kit/mcp-server.ts';
import auth from '../../auth/index.ts';
import mcp from '../index.ts';

/** What a test says otherwise. */
interface GuardedSetup {
  readonly provider?: IdentityProvider;
  /** Of `mcp`, beside the issuer; `false` for none. */
  readonly authorization?: Readonly<Record<string, unknown>> | false;
  /** Of `auth`, beside keys and issuer of the provider. */
  readonly jwt?: Readonly<Record<string, unknown>>;
  readonly keys?: Readonly<Record<string, KeyRecord>>;
  readonly server?: TestGatewayOptions['server'];
  /** Beside the host of the provider. */
  readonly trustedHosts?: readonly string[];
  /** Answers what plugins fetch from https addresses. */
  readonly documents?: GuardedFetch;
  readonly gateway?: Partial<TestGatewayOptions>;
}

/**
 * A gateway in front of one MCP server under two names, `/tickets/mcp` and `/crm/mcp`, which asks for tokens of the
 * provider. Without one, tokens are those of a key set that nobody has.
 */
export async function startGuarded(
  t: TestContext,
  {
    provider,
    authorization = {},
    jwt = {},
    keys = {},
    server = {},
    trustedHosts = [],
    documents,
    gateway = {},
  }: GuardedSetup,
) {
  const upstream = await startMcpServer();
  const log = recordingLog([]);
  const transport = createUndiciTransport({ log, clock: realClock, metrics: new RecordingMetrics() });
  t.after(async () => {
    await transport.close();
    upstream.close();
  });
  const trusted = [...trustedHosts, ...(provider === undefined ? [] : [provider.host])];
  const guardedFetch = createGuardedFetch({ log, clock: realClock, trustedHosts: trusted });
  const issuer = provider?.issuer ?? 'https://id.example.com';
  const jwks_url = provider?.jwksUrl ?? 'https://id.example.com/jwks';
  const { url } = upstream;
  return startTestGateway(t, {
    keys,
    server,
    guardedFetch: {
      fetch: (request) =>
        (documents !== undefined && request.url.startsWith('https:') ? documents : guardedFetch).fetch(
          request,
        ),
    },
    mcp: createMcpClients({
      log,
      clock: realClock,
      transport,
      trustedHosts: trusted,
      oauth: createOauthClients({ fetch: guardedFetch, clock: gateway.clock ?? realClock }),
    }),
    plugins: [
      { plugin: auth, options: { jwt: { jwks_url, issuer, ...jwt } } },
      {
        plugin: mcp,
        options: {
          servers: { tickets: { url }, crm: { url } },
          ...(authorization !== false && { authorization: { issuer, ...authorization } }),
        },
      },
    ],
    ...gateway,
  });
}
