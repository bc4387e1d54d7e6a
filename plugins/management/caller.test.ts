import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { defaultSecurity, type SecuritySettings } from '../../core/ports/organisation-settings.ts';
import { openResourcesOfFile, startAdministration } from '../../tests/kit/administration-kit.ts';

const resources = await openResourcesOfFile();

describe('who calls', () => {
  test('the scopes of a member are those that the settings in force leave to members', async (t) => {
    let inForce: SecuritySettings = defaultSecurity;
    const { tenant, call } = await startAdministration(t, resources, {
      directory: {
        user: (_, id) => ({ id, role: 'member' }),
        memberRole: () => 'member',
        settingsIn: () => inForce,
      },
    });
    const { owner, key } = await tenant('caller');
    const scopes = ['analytics.view', 'configs.read', 'configs.update', 'prompts.read', 'prompts.publish'];
    const member = key({ kind: 'workspace-user', userId: 'user-1', scopes });
    const held = async (): Promise<string[]> => (await call(member, { path: '/me' })).json().scopes.sort();
    assert.deepEqual(await held(), ['analytics.view', 'configs.read', 'prompts.read']);
    inForce = {
      ...defaultSecurity,
      configs: { ...defaultSecurity.configs, membersWriteConfigs: true },
      prompts: { ...defaultSecurity.prompts, membersViewPrompts: false },
      data_visibility: { ...defaultSecurity.data_visibility, membersViewAnalytics: false },
    };
    assert.deepEqual(await held(), ['configs.read', 'configs.update']);
    const { role, scopes: all } = (await call(owner, { path: '/me' })).json();
    assert.equal(role, 'owner');
    assert.ok(all.includes('analytics.view') && all.includes('prompts.publish'));
  });
});
