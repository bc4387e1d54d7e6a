/** What tests of MCP integrations start with. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { TestContext } from 'node:test';
import type { SecretReferenceData } from '../../core/ports/record-kinds.ts';
import type { OauthClients } from '../../core/ports/oauth.ts';
import type { Resources } from '../../core/ports/resources.ts';
import { expecting, startAdministration } from './administration-kit.ts';
import { fakeMcp } from './fake-mcp.ts';
import { TestClock } from './plugin-kit.ts';

/** The routes of MCP integrations. */
export const path = '/mcp-integrations';
/** A secret that no answer may have. */
export const planted = 'tk-planted-0123456789-canary';
/** What makes an integration. */
export const body = {
  name: 'Tickets',
  url: 'https://tickets.example.com/mcp',
  auth_type: 'none',
  transport: 'http',
};
/** Headers for `configurations`. */
export const custom_headers = { 'X-Api-Key': planted };
/** The name of the secret that they are kept in. */
export const field = 'configurations.custom_headers';

/** A gateway in front of servers that answer what they are told, with an organisation of its own. */
export async function startMcp(t: TestContext, resources: Resources, oauth?: OauthClients) {
  const mcp = fakeMcp(oauth);
  const clock = new TestClock();
  const { tenant, call, gateway } = await startAdministration(t, resources, {
    mcp,
    clock,
    secretManagers: {
      refusal: () => undefined,
      value: ({ data }, _secrets, secretKey) => `${data.secretPath}/${secretKey ?? ''}`,
    },
  });
  const place = await tenant('mcp');
  const { owner, key, organisationId, workspaceId } = place;
  const { ok, refused } = expecting(call, owner);
  const ofWorkspace = (scopes: readonly string[] = ['*']) =>
    key({ kind: 'workspace-service', name: 'service', scopes, workspaceId });
  const stored = async (id: string) => {
    const found = await resources.read(({ records }) =>
      records.find('mcp_integration', { organisationId }, id),
    );
    assert.ok(found);
    return found;
  };
  const reference = async (slug: string, overrides: Partial<SecretReferenceData> = {}) => {
    await resources.write(organisationId, ({ records }) =>
      records.insert({
        kind: 'secret_reference',
        id: randomUUID(),
        organisationId,
        workspaceId: undefined,
        slug,
        name: slug,
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
          managerType: 'environment',
          authConfig: {},
          secretPath: slug,
          secretKey: '',
          allowAllWorkspaces: true,
          allowedWorkspaces: [],
          ...overrides,
        },
      }),
    );
  };
  return { ...place, mcp, clock, call, ok, refused, ofWorkspace, stored, reference, gateway };
}
