import { ProviderKey } from '../../core/organisation/integration-schema.ts';
import { allOrigins, originsOf } from '../../core/providers/secret-origins.ts';
import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, Type, type Scope, type Static } from '../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import type { IntegrationData } from '../../core/ports/record-kinds.ts';
import type { StoredRecord } from '../../core/ports/records.ts';
import { movedSecrets, unboundReferences } from './bound-secrets.ts';
import { changedRecord } from './changed-record.ts';
import { integrationScopes, visibleIntegration } from './integration-access.ts';
import { providerRow } from './integration-body.ts';
import {
  changedModels,
  GivenModel,
  IntegrationModelReply,
  modelExample,
  modelHeaders,
  showModel,
} from './integration-model-record.ts';
import { openSecrets, sealSecrets, shownSecrets, unmasked } from './integration-secrets.ts';
import { refusedBody, type BodyMistake } from './refused-body.ts';
import { staleVersion } from './stale-version.ts';
import { Identifier, strict } from './text-schema.ts';

const path = '/integrations/{slug}/models';
const Params = Type.Object({ slug: Identifier });
const workspace = Type.Optional(Identifier);
const Models = Type.Object({
  total: Type.Integer(),
  allow_all_models: Type.Boolean({ description: 'Models that are not listed may be asked for as well.' }),
  models: Type.Array(IntegrationModelReply),
});
const example: Static<typeof Models> = { total: 1, allow_all_models: false, models: [modelExample] };

/** The routes of the models of an integration. */
export function integrationModelRoutes(scope: Scope): readonly RouteDefinition[] {
  return [listRoute(scope), updateRoute(scope), deleteRoute(scope)];
}

function listRoute({ secrets }: Scope): RouteDefinition {
  return defineRoute({
    id: 'integration_models.list',
    method: 'GET',
    path,
    summary: 'What an integration says of models',
    scope: integrationScopes('read'),
    // Reads only.
    audit: null,
    params: Params,
    query: Type.Object({ workspace_id: workspace }, strict),
    reply: Models,
    examples: { response: example },
    async handle({ params, query, key, read, sendVersion }) {
      const named = { slug: params.slug, workspace: query.workspace_id };
      const record = await read((reader) => visibleIntegration(reader, key, named, 'read'));
      sendVersion(record.version);
      const plain = shownSecrets(secrets, record);
      return {
        total: record.data.models.length,
        allow_all_models: record.data.allowAllModels,
        models: record.data.models.map((model) => showModel(model, plain)),
      };
    },
  });
}

function updateRoute({ clock, router, secrets }: Scope): RouteDefinition {
  return defineRoute({
    id: 'integration_models.update',
    method: 'PUT',
    path,
    summary: 'Enables, disables and describes models; those that are not named stay',
    scope: integrationScopes('update'),
    audit: 'update',
    params: Params,
    query: Type.Object({ workspace_id: workspace }, strict),
    body: Type.Object(
      {
        models: Type.Optional(Type.Array(GivenModel, { maxItems: 1000 })),
        allow_all_models: Type.Optional(Type.Boolean()),
        key: Type.Optional({
          ...ProviderKey,
          description:
            "The integration's key, again: needed where the custom_host of a model leads to an origin for which it was not stored.",
        }),
      },
      { ...strict, minProperties: 1 },
    ),
    reply: Type.Object({}),
    examples: {
      request: { allow_all_models: false, models: [{ slug: 'gpt-4o-mini', enabled: true }] },
      response: {},
    },
    async handle({ params, query, body, key, write, requireVersion, sendVersion }) {
      const named = { slug: params.slug, workspace: query.workspace_id };
      const version = await write(async (writer) => {
        const before = await visibleIntegration(writer, key, named, 'update');
        requireVersion(before.version);
        const opened = openSecrets(secrets, before);
        const { models, headers, given } = changedModels(body.models ?? [], before.data.models, opened);
        const allowAllModels = body.allow_all_models ?? before.data.allowAllModels;
        const after = changed(before, key, clock.now(), { models, allowAllModels });
        const plain = { ...withoutHeaders(opened), ...headers };
        const mistakes: BodyMistake[] = [];
        if (body.key !== undefined) {
          plain['key'] = unmasked(body.key, opened['key'], mistakes, '/key');
          if (plain['key'] === body.key) given.add('key');
        }
        const row = providerRow(router, before.data.aiProviderId, '');
        const change = { before: { ...before, plain: opened }, after: { ...after, plain }, row, given };
        const origins = allOrigins(originsOf(after.data, row));
        const { secretMappings } = after.data;
        mistakes.push(...movedSecrets(change));
        mistakes.push(...(await unboundReferences(writer, secretMappings, origins, before)));
        if (mistakes.length > 0) throw refusedBody(mistakes);
        const sealed = sealSecrets(secrets, before.id, plain);
        if (!(await writer.records.replace({ ...after, secrets: sealed }))) throw staleVersion();
        return { id: after.id, workspaceId: after.workspaceId, result: after.version };
      });
      sendVersion(version);
      return {};
    },
  });
}

function deleteRoute({ clock }: Scope): RouteDefinition {
  return defineRoute({
    id: 'integration_models.delete',
    method: 'DELETE',
    path,
    summary: 'Forgets what an integration says of these models',
    scope: integrationScopes('update'),
    audit: 'delete',
    params: Params,
    query: Type.Object(
      {
        slugs: Type.Optional(
          Type.String({ minLength: 1, maxLength: 8192, description: 'With commas between them. Needed.' }),
        ),
        workspace_id: workspace,
      },
      strict,
    ),
    reply: Type.Object({}),
    examples: { response: {} },
    handle: async ({ params, query, key, write, requireVersion, sendVersion }) => {
      const named = { slug: params.slug, workspace: query.workspace_id };
      const version = await write(async (writer) => {
        const before = await visibleIntegration(writer, key, named, 'update');
        requireVersion(before.version);
        const gone = goneModels(before, query.slugs);
        const models = before.data.models.filter(({ slug }) => !gone.has(slug));
        const kept = Object.entries(before.secrets).filter(
          ([field]) => ![...gone].some((slug) => field === modelHeaders(slug)),
        );
        const after = { ...changed(before, key, clock.now(), { models }), secrets: Object.fromEntries(kept) };
        if (!(await writer.records.replace(after))) throw staleVersion();
        return { id: after.id, workspaceId: after.workspaceId, result: after.version };
      });
      sendVersion(version);
      return {};
    },
  });
}

/** The models that a query names. Throws `invalid_request` for none, `resource_not_found` for one that there is not. */
function goneModels(
  { name, data }: StoredRecord<'integration'>,
  slugs: string | undefined,
): ReadonlySet<string> {
  if (slugs === undefined) {
    throw new GatewayError(
      'invalid_request',
      '"slugs" is missing: name the models, with commas between them.',
      {
        param: 'slugs',
      },
    );
  }
  const gone = new Set(slugs.split(',').map((slug) => slug.trim()));
  for (const slug of gone) {
    if (data.models.some((model) => model.slug === slug)) continue;
    throw new GatewayError(
      'resource_not_found',
      `The integration "${name}" says nothing of a model "${slug.slice(0, 64)}".`,
      { param: 'slugs' },
    );
  }
  return gone;
}

function withoutHeaders(plain: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(plain).filter(([field]) => !field.startsWith('models.')));
}

function changed(
  before: StoredRecord<'integration'>,
  key: KeyRecord,
  now: number,
  data: Partial<IntegrationData>,
): StoredRecord<'integration'> {
  return changedRecord(before, { data: { ...before.data, ...data } }, key, now);
}
