import { isDeepStrictEqual } from 'node:util';
import { GatewayError, type Scope } from '../../core/pipeline/plugin.ts';
import type { McpDescription, McpOffer } from '../../core/ports/mcp.ts';
import type { McpCapability, McpIntegrationData } from '../../core/ports/record-kinds.ts';
import type { StoredRecord } from '../../core/ports/records.ts';
import type { ReferringIntegration } from './mcp-address.ts';
import { capabilityKey } from './mcp-capability-body.ts';
import { shakeHands, type Handshake, type HandshakeScope } from './mcp-handshake.ts';
import { noSuchRecord } from './visible-record.ts';
import { mcpIntegrationNoun } from './mcp-integration-access.ts';

type McpIntegration = StoredRecord<'mcp_integration'>;

/** How long what a server said of itself is believed. */
const freshMs = 5 * 60_000;
const maxTextLength = 255;

/** For whom a server is asked what it offers. */
export interface SyncRequest {
  /** Undefined: for the organisation itself. */
  readonly workspaceId: string | undefined;
  /** Also when it was asked just now. */
  readonly refresh: boolean;
}

/** Keeps what the records say of MCP servers as the servers say it: asks those that were not asked for five minutes. */
export class McpSync {
  private readonly scope: HandshakeScope & Pick<Scope, 'clock' | 'resources'>;
  /** By what is asked; requests that come meanwhile wait for the same answer. */
  private readonly underWay = new Map<string, Promise<McpIntegration>>();

  constructor(scope: HandshakeScope & Pick<Scope, 'clock' | 'resources'>) {
    this.scope = scope;
  }

  /** The record as it is after the server was asked, if it had to be; how that went stands in it. */
  async synced(
    integration: ReferringIntegration,
    { workspaceId, refresh }: SyncRequest,
  ): Promise<McpIntegration> {
    const { record } = integration;
    const { server } = record.data;
    const isFresh = server !== undefined && this.scope.clock.now() - server.syncedAt < freshMs;
    if (isFresh && !refresh) return record;
    const question = `${record.id} ${record.version} ${workspaceId ?? ''}`;
    const present = this.underWay.get(question);
    if (present !== undefined) return present;
    const asking = this.ask(integration, workspaceId).finally(() => this.underWay.delete(question));
    this.underWay.set(question, asking);
    return asking;
  }

  private async ask(
    integration: ReferringIntegration,
    workspaceId: string | undefined,
  ): Promise<McpIntegration> {
    const { mcp } = this.scope;
    const found = await shakeHands(this.scope, integration, workspaceId, (address) => mcp.describe(address));
    try {
      return await this.keep(integration.record, found);
    } catch (error) {
      if (!GatewayError.is(error) || error.code !== 'body_too_large') throw error;
      const failure = 'The server describes more than a record can hold, which is 1 MiB.';
      return this.keep(integration.record, { failure, status: undefined });
    }
  }

  /** What was found out at an address is of no use to a record that has another one by now. */
  private async keep(asked: McpIntegration, found: Handshake<McpDescription>): Promise<McpIntegration> {
    const { resources, clock } = this.scope;
    if (resources === undefined) return asked;
    const { id, organisationId } = asked;
    return resources.write(organisationId, async ({ records }) => {
      const record = await records.find('mcp_integration', { organisationId }, id);
      if (record === undefined) throw noSuchRecord(mcpIntegrationNoun, asked.slug);
      if (!isSameServer(record, asked)) return record;
      const now = clock.now();
      const data =
        'value' in found ? describedData(record.data, found.value, now) : failedData(record, found);
      if (data === record.data) return record;
      const after = { ...record, data, updatedAt: now, version: record.version + 1 };
      // Nobody else writes while this transaction holds the organisation.
      return (await records.replace(after)) ? after : record;
    });
  }
}

function isSameServer(record: McpIntegration, asked: McpIntegration): boolean {
  const reached = ({ data, secrets }: McpIntegration): unknown => [
    ...[data.url, data.transport, data.authType, data.secretMappings, secrets],
  ];
  return isDeepStrictEqual(reached(record), reached(asked));
}

/** What was known stays: the server may be back in a minute. */
function failedData({ data }: McpIntegration, { failure }: { readonly failure: string }): McpIntegrationData {
  return data.syncError === failure ? data : { ...data, syncError: failure };
}

function describedData(before: McpIntegrationData, found: McpDescription, now: number): McpIntegrationData {
  return {
    ...before,
    server: {
      name: found.serverName.slice(0, maxTextLength),
      version: found.serverVersion.slice(0, maxTextLength),
      protocolVersion: found.protocolVersion.slice(0, maxTextLength),
      capabilityFlags: plain(found.capabilityFlags),
      syncedAt: now,
    },
    syncError: '',
    capabilities: mergedCapabilities(before.capabilities, found.offers, now),
  };
}

/** What is offered now, in its order: switches and ages stay, what is new is switched on, what is gone is forgotten. */
function mergedCapabilities(
  before: readonly McpCapability[],
  offers: readonly McpOffer[],
  now: number,
): readonly McpCapability[] {
  const known = new Map(before.map((one) => [capabilityKey(one), one]));
  return offers.map(({ type, name, described: said }) => {
    const described = plain(said);
    const was = known.get(capabilityKey({ type, name }));
    if (was === undefined) return { type, name, described, enabled: true, createdAt: now, updatedAt: now };
    return isDeepStrictEqual(was.described, described) ? was : { ...was, described, updatedAt: now };
  });
}

/** Plain JSON as records hold it: the server's answer was read from nothing else. */
function plain(value: Readonly<Record<string, unknown>>): McpCapability['described'] {
  return JSON.parse(JSON.stringify(value)) as McpCapability['described'];
}
