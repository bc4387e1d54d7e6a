import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StoredRecord } from '../../../core/ports/records.ts';
import { fakeMcp } from '../../../tests/kit/fake-mcp.ts';
import { testScope } from '../../../tests/kit/plugin-kit.ts';
import { McpSync } from './metadata.ts';

const record: StoredRecord<'mcp_integration'> = {
  kind: 'mcp_integration',
  id: 'one',
  organisationId: 'org',
  workspaceId: undefined,
  slug: 'one',
  name: 'One',
  status: 'active',
  parentId: '',
  secrets: {},
  createdBy: 'k',
  updatedBy: 'k',
  createdAt: 1,
  updatedAt: 1,
  version: 1,
  data: {
    description: '',
    url: 'https://one.example.com/mcp',
    authType: 'none',
    transport: 'http',
    customHeaders: [],
    passthroughHeader: {},
    secretMappings: [],
    globalAccess: { enabled: true },
    workspaces: {},
    server: undefined,
    syncError: '',
    capabilities: [],
  },
};

test('requests that come while a server is asked wait for the same answer, each workspace for its own', async () => {
  const mcp = fakeMcp();
  const waiting: (() => void)[] = [];
  mcp.meanwhile = () => new Promise<void>((resolve) => waiting.push(resolve));
  const sync = new McpSync({ ...testScope().scope, mcp, resources: undefined });
  const ask = (workspaceId?: string) =>
    sync.synced({ record, references: [] }, { workspaceId, refresh: true });
  const answered = async (asked: readonly Promise<unknown>[], handshakes: number) => {
    await new Promise(setImmediate);
    assert.equal(waiting.length, handshakes);
    for (const release of waiting.splice(0)) release();
    await Promise.all(asked);
  };
  await answered([ask(), ask()], 1);
  await answered([ask(), ask('another'), ask('another')], 2);
});
