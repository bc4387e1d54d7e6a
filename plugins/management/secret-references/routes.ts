import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { type Scope, Type } from '../../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import type { ResourcesReader } from '../../../core/ports/resources.ts';
import type { Page, Paged } from '../../../core/ports/page.ts';
import type { RecordFilter, StoredRecord } from '../../../core/ports/records.ts';
import { RecordResource } from '../shared/record-resource.ts';
import { eachRecord, newSlug, requireOrganisation } from '../shared/records.ts';
import { openSecrets, sealSecrets } from '../shared/sealed-secrets.ts';
import { ManagerType } from './auth.ts';
import {
  changedReference,
  CreateSecretReference,
  emptyReference,
  referenceExample,
  requireUnreferenced,
  SecretReferenceDetail,
  SecretReferenceReply,
  showReference,
  showWholeReference,
  UpdateSecretReference,
  wholeReferenceExample,
} from './record.ts';
import { Name } from '../shared/fields.ts';

type Reference = StoredRecord<'secret_reference'>;

/** The routes of secret references. They belong to the organisation; its keys and its owner's keys may use them. */
export function secretReferenceRoutes(scope: Scope): readonly RouteDefinition[] {
  const { secrets, secretManagers: managers } = scope;
  const references = new RecordResource(scope, {
    kind: 'secret_reference',
    noun: 'secret reference',
    operations: 'secret_references',
    path: '/secret-references',
    parameter: 'secretReferenceId',
    scopes: (action) => `secret_references.${action}`,
  });
  const showWhole = (record: Reference) => showWholeReference(record, openSecrets(secrets, record));
  return [
    references.create({
      summary: 'Creates a reference to a secret in a secret manager',
      body: CreateSecretReference,
      reply: Type.Object({
        id: Type.String(),
        slug: Type.String(),
        object: Type.Literal('secret-reference'),
      }),
      examples: {
        request: {
          name: 'OpenAI key',
          slug: 'openai-key',
          manager_type: 'hashicorp_vault',
          auth_config: {
            vault_auth_type: 'token',
            vault_addr: 'https://vault.example.com:8200',
            vault_token: 'hvs.…',
          },
          secret_path: 'secret/team/openai',
          secret_key: 'api_key',
        },
        response: { id: referenceExample.id, slug: 'openai-key', object: 'secret-reference' },
      },
      prepare: ({ key, body }) => requireOrganisation(key, body.organisation_id),
      async make(writer, { id, key, body }) {
        const setting = { organisationId: key.organisationId, managers };
        const { plain, ...content } = await changedReference(writer, body, emptyReference(body), setting);
        const slug = body.slug ?? newSlug('', body.name);
        return { workspaceId: undefined, slug, ...content, secrets: sealSecrets(secrets, id, plain) };
      },
      show: ({ id, slug }) => ({ id, slug, object: 'secret-reference' as const }),
    }),
    references.list({
      summary: 'Secret references of the organisation, oldest first',
      query: {
        manager_type: Type.Optional(ManagerType),
        search: Type.Optional(Name('Part of the name or the slug, in any case.')),
      },
      entry: SecretReferenceReply,
      examples: { response: { object: 'list', total: 1, data: [referenceExample] } },
      rows(reader, { key, query }, page) {
        const filter: RecordFilter = { ...(query.search !== undefined && { search: query.search }) };
        const { manager_type: wanted } = query;
        return wanted === undefined
          ? reader.records.list('secret_reference', key.organisationId, filter, page)
          : ofManager(reader, key, { wanted, filter, page });
      },
      show: showReference,
    }),
    references.get({
      summary: 'One secret reference, with masked secrets',
      reply: SecretReferenceDetail,
      examples: { response: wholeReferenceExample },
      show: showWhole,
    }),
    references.update({
      summary: 'Updates a secret reference; omitted fields stay unchanged',
      body: UpdateSecretReference,
      reply: SecretReferenceDetail,
      examples: { request: { secret_path: 'secret/team/openai' }, response: wholeReferenceExample },
      async change(before, writer, { key, body }) {
        const { id, name, data } = before;
        const opened = { name, data, plain: openSecrets(secrets, before) };
        const setting = { organisationId: key.organisationId, managers };
        const { plain, ...content } = await changedReference(writer, body, opened, setting);
        return { ...content, secrets: sealSecrets(secrets, id, plain) };
      },
      show: showWhole,
    }),
    references.remove({
      summary: 'Deletes a secret reference that no integration uses; the secret itself stays',
      examples: { response: {} },
      requireUnused: requireUnreferenced,
    }),
  ];
}

interface WantedReferences {
  readonly wanted: Reference['data']['managerType'];
  readonly filter: RecordFilter;
  readonly page: Page;
}

/** Searches all references: the store cannot filter by their manager. */
async function ofManager(
  reader: Pick<ResourcesReader, 'records'>,
  { organisationId }: KeyRecord,
  { wanted, filter, page: { offset, limit } }: WantedReferences,
): Promise<Paged<Reference>> {
  const data: Reference[] = [];
  let total = 0;
  for await (const record of eachRecord(reader, 'secret_reference', organisationId, filter)) {
    if (record.data.managerType !== wanted) continue;
    if (total >= offset && data.length < limit) data.push(record);
    total += 1;
  }
  return { total, data };
}
