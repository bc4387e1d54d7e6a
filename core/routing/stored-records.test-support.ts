import { RecordTable } from '../administration/directory/organisation-table.ts';
import type { Directory } from '../ports/directory.ts';
import type { IntegrationData, IntegrationModel, ProviderData } from '../ports/record-kinds.ts';
import type { RecordKind, StoredRecord } from '../ports/records.ts';
import { secretContext } from '../ports/secret-managers.ts';
import { testSecrets } from '../../tests/kit/test-secrets.ts';

type Envelope = Partial<Omit<StoredRecord, 'kind' | 'data' | 'secrets'>>;

function record<K extends RecordKind>(
  kind: K,
  data: StoredRecord<K>['data'],
  { id, ...more }: Envelope,
): StoredRecord<K> {
  const own = id ?? `${kind}-1`;
  return {
    kind,
    id: own,
    organisationId: 'org-1',
    workspaceId: 'ws-1',
    slug: own,
    name: own,
    status: 'active',
    parentId: '',
    secrets: {},
    createdBy: 'k',
    updatedBy: 'k',
    createdAt: 1,
    updatedAt: 1,
    version: 1,
    data,
    ...more,
  };
}

/** An integration of workspace `ws-1` with these secrets; `data` overrides its defaults. */
export function integration(
  secrets: Readonly<Record<string, string>>,
  data: Partial<IntegrationData> = {},
  envelope: Envelope = {},
): StoredRecord<'integration'> {
  const made = record(
    'integration',
    {
      aiProviderId: 'plain',
      description: '',
      configurations: {},
      secretMappings: [],
      allowAllModels: true,
      models: [],
      workspaces: {},
      priceMultiplier: 1,
      globalAccess: { enabled: true, usageLimits: [], rateLimits: [] },
      ...data,
    },
    envelope,
  );
  const sealed = Object.entries(secrets).map(([field, text]) => [
    field,
    testSecrets.seal(text, secretContext(made.id, field)),
  ]);
  return { ...made, secrets: Object.fromEntries(sealed) as Record<string, string> };
}

/** A provider of workspace `ws-1` with the slug `mine`, of the integration `integration-1`. */
export function provider(
  data: Partial<ProviderData> = {},
  envelope: Envelope = {},
): StoredRecord<'provider'> {
  return record(
    'provider',
    { note: '', usageLimits: undefined, rateLimits: [], expiresAt: undefined, isVirtualKey: false, ...data },
    { slug: 'mine', parentId: 'integration-1', ...envelope },
  );
}

/** An enabled model of an integration. */
export function model(slug: string, more: Partial<IntegrationModel> = {}): IntegrationModel {
  return {
    slug,
    enabled: true,
    isCustom: false,
    isFinetune: false,
    baseModelSlug: '',
    configurations: {},
    pricing: undefined,
    ...more,
  };
}

/** A directory of one organisation; `put` stores a record as administration would. */
export function recordsDirectory(records: readonly StoredRecord[]): Pick<
  Directory,
  'standing' | 'record' | 'records'
> & {
  put(record: StoredRecord): void;
} {
  const table = new RecordTable();
  for (const one of records) table.put(one);
  return {
    standing: () => 'current',
    record: (kind, place, idOrSlug) => table.find(kind, place.workspaceId, idOrSlug),
    records: (kind, place) => table.list(kind, place.workspaceId),
    put: (one) => table.put(one),
  };
}
