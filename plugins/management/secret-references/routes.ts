import { randomUUID } from 'node:crypto';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, type Scope, Type } from '../../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import type { ResourcesReader } from '../../../core/ports/resources.ts';
import type { Page, Paged } from '../../../core/ports/page.ts';
import type { RecordFilter, StoredRecord } from '../../../core/ports/records.ts';
import {
  changedRecord,
  eachRecord,
  newSlug,
  requireOrganisation,
  staleVersion,
  visibleRecord,
} from '../shared/records.ts';
import { openSecrets, sealSecrets } from '../shared/sealed-secrets.ts';
import { listReply, pageOf, pageQuery } from '../shared/replies.ts';
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
import { Identifier, Name, strict } from '../shared/fields.ts';

const path = '/secret-references';
const Params = Type.Object({ secretReferenceId: Identifier });

type Reference = StoredRecord<'secret_reference'>;

/** The routes of secret references: all of the organisation, for its keys and its owner's. */
export function secretReferenceRoutes(scope: Scope): readonly RouteDefinition[] {
  return [createRoute(scope), listRoute(), getRoute(scope), updateRoute(scope), deleteRoute()];
}

function createRoute({ clock, secrets, secretManagers: managers }: Scope): RouteDefinition {
  return defineRoute({
    id: 'secret_references.create',
    method: 'POST',
    path,
    summary: 'Stores where a secret is kept, and how its manager is asked for it',
    scope: 'secret_references.create',
    audit: 'create',
    body: CreateSecretReference,
    reply: Type.Object({ id: Type.String(), slug: Type.String(), object: Type.Literal('secret-reference') }),
    examples: {
      request: {
        ...{ name: 'OpenAI key', slug: 'openai-key', manager_type: 'hashicorp_vault' },
        auth_config: {
          ...{ vault_auth_type: 'token', vault_addr: 'https://vault.example.com:8200', vault_token: 'hvs.…' },
        },
        ...{ secret_path: 'secret/team/openai', secret_key: 'api_key' },
      },
      response: { id: referenceExample.id, slug: 'openai-key', object: 'secret-reference' },
    },
    async handle({ body, key, write, sendVersion }) {
      const { organisationId } = key;
      requireOrganisation(key, body.organisation_id);
      const now = clock.now();
      const id = randomUUID();
      const by = key.userId || key.id;
      const slug = body.slug ?? newSlug('', body.name);
      await write(async (writer) => {
        const setting = { organisationId, managers };
        const made = await changedReference(writer, body, emptyReference(body), setting);
        await writer.records.insert<'secret_reference'>({
          ...{ kind: 'secret_reference', id, organisationId, workspaceId: undefined, slug, name: made.name },
          ...{ status: 'active', parentId: '', data: made.data },
          ...{ secrets: sealSecrets(secrets, id, made.plain), createdBy: by, updatedBy: by },
          ...{ createdAt: now, updatedAt: now, version: 1 },
        });
        return { id, result: undefined };
      });
      sendVersion(1);
      return { id, slug, object: 'secret-reference' as const };
    },
  });
}

function listRoute(): RouteDefinition {
  return defineRoute({
    id: 'secret_references.list',
    method: 'GET',
    path,
    summary: 'The secret references of the organisation, oldest first',
    scope: 'secret_references.list',
    // Reads only.
    audit: null,
    query: Type.Object(
      {
        ...pageQuery,
        manager_type: Type.Optional(ManagerType),
        search: Type.Optional(Name('Part of the name or the slug, in any case.')),
      },
      strict,
    ),
    reply: Type.Object({ ...listReply, data: Type.Array(SecretReferenceReply) }),
    examples: { response: { object: 'list', total: 1, data: [referenceExample] } },
    async handle({ query, key, read }) {
      const page = pageOf(query);
      const filter: RecordFilter = { ...(query.search !== undefined && { search: query.search }) };
      const { manager_type: wanted } = query;
      const { total, data } = await read((reader) =>
        wanted === undefined
          ? reader.records.list('secret_reference', key.organisationId, filter, page)
          : ofManager(reader, key, { wanted, filter, page }),
      );
      return { object: 'list' as const, total, data: data.map((record) => showReference(record)) };
    },
  });
}

interface WantedReferences {
  readonly wanted: Reference['data']['managerType'];
  readonly filter: RecordFilter;
  readonly page: Page;
}

/** Which manager it is stands in the records themselves, so all of them are looked at. */
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

function getRoute({ secrets }: Scope): RouteDefinition {
  return defineRoute({
    id: 'secret_references.get',
    method: 'GET',
    path: `${path}/{secretReferenceId}`,
    summary: 'One secret reference, its secrets masked',
    scope: 'secret_references.read',
    // Reads only.
    audit: null,
    params: Params,
    reply: SecretReferenceDetail,
    examples: { response: wholeReferenceExample },
    async handle({ params, key, read, sendVersion }) {
      const record = await read((reader) => visibleReference(reader, key, params.secretReferenceId));
      sendVersion(record.version);
      return showWholeReference(record, openSecrets(secrets, record));
    },
  });
}

function updateRoute({ clock, secrets, secretManagers: managers }: Scope): RouteDefinition {
  return defineRoute({
    id: 'secret_references.update',
    method: 'PUT',
    path: `${path}/{secretReferenceId}`,
    summary: 'Changes a secret reference; what is not given stays',
    scope: 'secret_references.update',
    audit: 'update',
    params: Params,
    body: UpdateSecretReference,
    reply: SecretReferenceDetail,
    examples: { request: { secret_path: 'secret/team/openai' }, response: wholeReferenceExample },
    async handle({ params, body, key, write, requireVersion, sendVersion }) {
      const { record, plain } = await write(async (writer) => {
        const before = await visibleReference(writer, key, params.secretReferenceId);
        requireVersion(before.version);
        const { name, data } = before;
        const opened = { name, data, plain: openSecrets(secrets, before) };
        const setting = { organisationId: key.organisationId, managers };
        const { plain, ...content } = await changedReference(writer, body, opened, setting);
        const change = { ...content, secrets: sealSecrets(secrets, before.id, plain) };
        const after = changedRecord(before, change, key, clock.now());
        if (!(await writer.records.replace(after))) throw staleVersion();
        return { id: after.id, result: { record: after, plain } };
      });
      sendVersion(record.version);
      return showWholeReference(record, plain);
    },
  });
}

function deleteRoute(): RouteDefinition {
  return defineRoute({
    id: 'secret_references.delete',
    method: 'DELETE',
    path: `${path}/{secretReferenceId}`,
    summary: 'Deletes a secret reference that no integration uses; the secret stays where it is',
    scope: 'secret_references.delete',
    audit: 'delete',
    params: Params,
    reply: Type.Object({}),
    examples: { response: {} },
    async handle({ params, key, write, requireVersion }) {
      await write(async (writer) => {
        const before = await visibleReference(writer, key, params.secretReferenceId);
        requireVersion(before.version);
        await requireUnreferenced(writer, before);
        if (!(await writer.records.remove('secret_reference', key.organisationId, before.id)))
          throw staleVersion();
        return { id: before.id, result: undefined };
      });
      return {};
    },
  });
}

function visibleReference(
  reader: Pick<ResourcesReader, 'records' | 'workspaces'>,
  key: KeyRecord,
  idOrSlug: string,
): Promise<Reference> {
  return visibleRecord(reader, key, { kind: 'secret_reference', noun: 'secret reference', idOrSlug });
}
