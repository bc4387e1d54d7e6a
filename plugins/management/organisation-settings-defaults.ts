import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { defineRoute, Type, type Scope, type Static } from '../../core/pipeline/plugin.ts';
import type { OrganisationDefaults, OrganisationSettings } from '../../core/ports/organisation-settings.ts';
import { OrganisationDefaultsReply, showOrganisationDefaults } from './settings-reply.ts';
import { staleVersion } from './stale-version.ts';
import { Metadata, Name, orNull, strict } from './text-schema.ts';
import { readDefaults } from './workspace-body.ts';

const path = '/admin/organisation/defaults';

const Body = Type.Object(
  {
    metadata: Type.Optional(orNull(Metadata)),
    config_id: Type.Optional(orNull(Name('A config of this gateway.'))),
  },
  strict,
);

const example: Static<typeof OrganisationDefaultsReply> = {
  ...{ object: 'organisation-defaults', metadata: { team: 'research' }, config_id: 'main' },
  last_updated_at: '2026-11-21T09:00:00.000Z',
};

/** What requests of the whole organisation begin with: `GET` and `PUT /admin/organisation/defaults`. */
export function organisationDefaultsRoutes(scope: Scope): readonly RouteDefinition[] {
  return [getRoute(), updateRoute(scope)];
}

function getRoute(): RouteDefinition {
  return defineRoute({
    id: 'organisation_defaults.get',
    method: 'GET',
    path,
    summary: 'What requests of the organisation begin with',
    scope: 'organisation_settings.read',
    // Reads only.
    audit: null,
    reply: OrganisationDefaultsReply,
    examples: { response: example },
    async handle({ key, read, sendVersion }) {
      const found = await read(({ settings }) => settings.ofOrganisation(key.organisationId));
      sendVersion(found.version);
      return showOrganisationDefaults(found);
    },
  });
}

function updateRoute({ clock, router }: Scope): RouteDefinition {
  return defineRoute({
    id: 'organisation_defaults.update',
    method: 'PUT',
    path,
    summary: 'Changes what requests of the organisation begin with; what is not given stays',
    scope: 'organisation_settings.update',
    audit: 'update',
    body: Body,
    reply: OrganisationDefaultsReply,
    examples: { request: { metadata: example.metadata, config_id: 'main' }, response: example },
    async handle({ body, key, write, requireVersion, sendVersion }) {
      const changed = await write(async ({ settings }) => {
        const before = await settings.ofOrganisation(key.organisationId);
        requireVersion(before.version);
        const after: OrganisationSettings = {
          ...before,
          defaults: changedDefaults(body, before.defaults, router),
          ...{ updatedAt: clock.now(), version: before.version + 1 },
        };
        if (!(await settings.replaceOrganisation(after))) throw staleVersion();
        return { id: key.organisationId, result: after };
      });
      sendVersion(changed.version);
      return showOrganisationDefaults(changed);
    },
  });
}

function changedDefaults(
  body: Static<typeof Body>,
  before: OrganisationDefaults,
  router: Scope['router'],
): OrganisationDefaults {
  const metadata = body.metadata === undefined ? before.metadata : (body.metadata ?? undefined);
  // What stood there before is not looked for again: a config may have gone meanwhile, and is no part of this change.
  const { configId: given } = readDefaults({ config_id: body.config_id ?? null }, router, '');
  const configId = body.config_id === undefined ? before.configId : given;
  return {
    ...(metadata !== undefined && { metadata }),
    ...(configId !== undefined && { configId }),
  };
}
