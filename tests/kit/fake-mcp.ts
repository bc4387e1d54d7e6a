/** Servers of the Model Context Protocol for tests of what is said of them: no network, and every address is kept. */
import type { McpAddress, McpClients, McpDescription, McpOffer } from '../../core/ports/mcp.ts';
import type { OauthClients } from '../../core/ports/oauth.ts';

const noServer = () => Promise.reject(new Error('This test speaks to no authorization server.'));

/** No authorization server can be spoken to. */
export const noOauth: OauthClients = {
  discover: noServer,
  register: noServer,
  authorize: noServer,
  token: noServer,
  revoke: noServer,
};

/** A fake that answers what it is told to. */
interface FakeMcp extends McpClients {
  /** Every address that was spoken to, in their order. */
  readonly addresses: McpAddress[];
  /** What handshakes answer from now on; an error is thrown. */
  answer: McpDescription | Error;
  /** Awaited within every handshake. */
  meanwhile: () => Promise<unknown>;
}

/** A tool with a schema. */
export function toolOffer(name: string, description = `Does ${name}.`): McpOffer {
  return { type: 'tool', name, described: { description, inputSchema: { type: 'object' } } };
}

/** A server that offers these. */
export function describedServer(offers: readonly McpOffer[]): McpDescription {
  return {
    serverName: 'tickets',
    serverVersion: '1.4.0',
    protocolVersion: '2025-06-18',
    capabilityFlags: { tools: { listChanged: true } },
    offers,
  };
}

/** A server that offers nothing until it is told what; `oauth` speaks to its authorization server. */
export function fakeMcp(oauth: OauthClients = noOauth): FakeMcp {
  const fake: FakeMcp = {
    addresses: [],
    answer: describedServer([]),
    meanwhile: () => Promise.resolve(),
    async describe(address) {
      fake.addresses.push(address);
      await fake.meanwhile();
      if (fake.answer instanceof Error) throw fake.answer;
      return fake.answer;
    },
    greet: async (address) => ({ serverName: (await fake.describe(address)).serverName }),
    upstream: () => {
      throw new Error('The fake passes nothing on.');
    },
    oauth,
  };
  return fake;
}
