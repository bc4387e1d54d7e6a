import { Type, type Static } from '../../core/pipeline/plugin.ts';
import type { StoredRecord } from '../../core/ports/records.ts';
import type { PlainSecrets } from './integration-secrets.ts';
import { maskedAuth, ManagerType } from './secret-reference-auth.ts';
import { authOf } from './secret-reference-body.ts';
import { Metadata, orNull } from './text-schema.ts';

/** A secret reference as lists show it. */
export const SecretReferenceReply = Type.Object({
  id: Type.String(),
  name: Type.String(),
  slug: Type.String(),
  manager_type: ManagerType,
  status: Type.Union([Type.Literal('active'), Type.Literal('archived')]),
  created_at: Type.String(),
  last_updated_at: Type.String(),
  object: Type.Literal('secret-reference'),
});

/** One secret reference. */
export const SecretReferenceDetail = Type.Object({
  ...SecretReferenceReply.properties,
  organisation_id: Type.String(),
  description: Type.String(),
  auth_config: Type.Record(Type.String(), Type.String(), { description: 'Secret fields are masked.' }),
  secret_path: Type.String(),
  secret_key: orNull(Type.String()),
  allow_all_workspaces: Type.Boolean(),
  allowed_workspaces: Type.Array(Type.String(), { description: 'Ids; empty when all are allowed.' }),
  allowed_hosts: orNull(
    Type.Array(Type.String(), {
      description:
        'Hosts that the secret may be sent to; empty for those of the provider table, null for all (references from before there were hosts).',
    }),
  ),
  tags: orNull(Metadata),
  created_by: Type.String(),
});

type Reference = StoredRecord<'secret_reference'>;

/** Puts a stored reference into the shape of lists. */
export function showReference(record: Reference): Static<typeof SecretReferenceReply> {
  return {
    ...{ id: record.id, name: record.name, slug: record.slug, manager_type: record.data.managerType },
    status: record.status,
    created_at: new Date(record.createdAt).toISOString(),
    last_updated_at: new Date(record.updatedAt).toISOString(),
    object: 'secret-reference',
  };
}

/** Puts a stored reference into the shape of the API, its opened secrets masked. */
export function showWholeReference(
  record: Reference,
  plain: PlainSecrets,
): Static<typeof SecretReferenceDetail> {
  const { data } = record;
  return {
    ...showReference(record),
    organisation_id: record.organisationId,
    description: data.description,
    auth_config: maskedAuth(authOf({ data, plain })),
    secret_path: data.secretPath,
    secret_key: data.secretKey === '' ? null : data.secretKey,
    allow_all_workspaces: data.allowAllWorkspaces,
    allowed_workspaces: [...data.allowedWorkspaces],
    allowed_hosts: data.allowedHosts === undefined ? null : [...data.allowedHosts],
    tags: data.tags === undefined ? null : { ...data.tags },
    created_by: record.createdBy,
  };
}

/** For the reference. */
export const referenceExample: Static<typeof SecretReferenceReply> = {
  ...{ id: '0198a1c2-7b3e-7c4d-8e5f-6a7b8c9d0e1f', name: 'OpenAI key', slug: 'openai-key' },
  ...{ manager_type: 'hashicorp_vault', status: 'active', object: 'secret-reference' },
  ...{ created_at: '2026-11-21T09:00:00.000Z', last_updated_at: '2026-11-21T09:00:00.000Z' },
};

/** For the reference. */
export const wholeReferenceExample: Static<typeof SecretReferenceDetail> = {
  ...referenceExample,
  organisation_id: '0198a1c2-0000-7c4d-8e5f-6a7b8c9d0e1f',
  description: '',
  auth_config: {
    ...{ vault_auth_type: 'token', vault_addr: 'https://vault.example.com:8200', vault_token: 'hv…9f' },
  },
  ...{ secret_path: 'secret/team/openai', secret_key: 'api_key', tags: null, created_by: 'a key' },
  ...{ allow_all_workspaces: false, allowed_workspaces: [], allowed_hosts: [] },
};
