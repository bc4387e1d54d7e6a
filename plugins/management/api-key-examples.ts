import type { Static } from '../../core/pipeline/plugin.ts';
import type { ApiKeyType } from '../../core/access/scopes.ts';
import type { ApiKeyReply } from './api-key-record.ts';

/** What a secret looks like, for the reference. */
export const secretExample = 'wk_the-new-secret-of-forty-random-characters';

/** Scopes that keys of each type can hold. */
export const scopesExample: Readonly<Record<ApiKeyType, readonly string[]>> = {
  'organisation-service': ['workspaces.list', 'audit_logs.list'],
  'workspace-service': ['completions.write', 'logs.view'],
  'workspace-user': ['completions.write', 'logs.view'],
};

/** A key as the reference shows it. */
export const apiKeyExample: Static<typeof ApiKeyReply> = {
  ...{ id: '0198a1c2-7b3e-7c4d-8e5f-6a7b8c9d0e1f', key: 'wk_Qz…7f', name: 'batch', description: 'Nightly' },
  ...{ type: 'workspace-service', status: 'active', creation_mode: 'api', managed_by: 'api', user_id: null },
  organisation_id: '0198a1c2-0000-7c4d-8e5f-6a7b8c9d0e1f',
  workspace_id: '0198a1c2-1111-7c4d-8e5f-6a7b8c9d0e1f',
  created_at: '2026-11-21T09:00:00.000Z',
  last_updated_at: '2026-11-21T09:00:00.000Z',
  rate_limits: [{ type: 'requests', unit: 'rpm', value: 600 }],
  usage_limits: {
    ...{ type: 'cost', credit_limit: 100, alert_threshold: 80, current_usage: 12.5 },
    ...{ periodic_reset: 'monthly', periodic_reset_days: null, next_usage_reset_at: null },
  },
  current_usage: 12.5,
  scopes: [...scopesExample['workspace-service']],
  defaults: {
    metadata: { team: 'research' },
    config_id: null,
    allow_config_override: true,
    log_bodies: null,
  },
  alert_emails: ['ann@example.com'],
  expires_at: '2030-01-01T00:00:00.000Z',
  ...{ key_transition_expires_at: null, object: 'api-key' },
};
