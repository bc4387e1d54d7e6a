import type { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';
import { TrustedHosts } from '../../core/base/host-rules.ts';
import type { Log } from '../../core/ports/log.ts';
import type { McpAddress, McpClients, McpDescription } from '../../core/ports/mcp.ts';
import { createAddressGuard, type Resolve } from '../addresses/address-guard.ts';
import { TlsSessions } from '../transport/open-socket.ts';
import type { Surroundings } from './conversation-fetch.ts';
import { Conversation, type Spoken } from './conversation.ts';
import { listOffers } from './list-offers.ts';
import { mcpFailed } from './mcp-errors.ts';
import { mcpLimits, type McpLimits } from './mcp-limits.ts';
import { fittingMembers, storableText } from './plain-json.ts';

/** What `createMcpClients` needs. */
export interface McpClientsOptions {
  readonly log: Log;
  readonly clock: Clock;
  /** `security.trusted_hosts`. */
  readonly trustedHosts: readonly string[];
  /** Resolves names. Default: the system. */
  readonly resolve?: Resolve;
  /** Default: `mcpLimits`, for each that is not named. */
  readonly limits?: Partial<McpLimits>;
}

/**
 * Makes what speaks to servers of the Model Context Protocol. Nothing is kept between conversations, so it needs no
 * closing; the protocol's library is loaded with the first one.
 */
export function createMcpClients(options: McpClientsOptions): McpClients {
  return new GuardedMcpClients(options);
}

class GuardedMcpClients implements McpClients {
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #around: Surroundings;
  #underWay = 0;

  constructor({ log, clock, trustedHosts, resolve, limits }: McpClientsOptions) {
    this.#log = log;
    this.#clock = clock;
    this.#around = {
      trusted: new TrustedHosts(trustedHosts),
      guard: createAddressGuard(resolve),
      observer: {
        sessions: new TlsSessions(),
        opened: () => 0,
        connected: () => undefined,
        closed: () => undefined,
      },
      limits: { ...mcpLimits, ...limits },
    };
  }

  async describe(address: McpAddress): Promise<McpDescription> {
    const { limits } = this.#around;
    return await this.#hold(address, async (spoken, host) => {
      const { offers, leftOut } = await listOffers(spoken, limits);
      const flags = fittingMembers(spoken.client.getServerCapabilities() ?? {}, limits.maxDescribedBytes);
      if (leftOut.length > 0 || flags.leftOut > 0) {
        const capabilities = flags.leftOut > 0 ? ['capabilities: members that are too large'] : [];
        this.#log.warn('Not all that an MCP server offers is kept', {
          host,
          leftOut: [...capabilities, ...leftOut],
        });
      }
      const { name, version } = this.#calledItself(spoken);
      const { protocolVersion } = spoken;
      return {
        ...{ serverName: name, serverVersion: version, protocolVersion },
        ...{ capabilityFlags: flags.kept, offers },
      };
    });
  }

  async greet(address: McpAddress): Promise<{ readonly serverName: string }> {
    return await this.#hold(address, (spoken) =>
      Promise.resolve({ serverName: this.#calledItself(spoken).name }),
    );
  }

  async #hold<Result>(
    address: McpAddress,
    say: (spoken: Spoken, host: string) => Promise<Result>,
  ): Promise<Result> {
    const conversation = new Conversation(address, this.#around, this.#clock);
    const { host } = conversation;
    const { maxConversations } = this.#around.limits;
    if (this.#underWay >= maxConversations) {
      const why = `${maxConversations} handshakes are under way, the most that are allowed; try again shortly`;
      throw mcpFailed(host, why);
    }
    this.#underWay += 1;
    try {
      return await conversation.hold((spoken) => say(spoken, host));
    } catch (error) {
      const { code, message, cause } = error as GatewayError;
      this.#log.debug('A handshake with an MCP server failed', { host, code, message, cause });
      throw error;
    } finally {
      this.#underWay -= 1;
    }
  }

  #calledItself({ client }: Spoken): { readonly name: string; readonly version: string } {
    const { name = '', version = '' } = client.getServerVersion() ?? {};
    const { maxNameLength } = this.#around.limits;
    return {
      name: storableText(name.slice(0, maxNameLength)),
      version: storableText(version.slice(0, maxNameLength)),
    };
  }
}
