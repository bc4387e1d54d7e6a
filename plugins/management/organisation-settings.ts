import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { defineRoute, Type, type Scope } from '../../core/pipeline/plugin.ts';
import { defaultSettings, type OrganisationSettings } from '../../core/ports/organisation-settings.ts';
import { organisationDefaultsRoutes } from './organisation-settings-defaults.ts';
import { changedSecurity } from './settings-body.ts';
import { OrganisationSettingsReply, showOrganisationSettings } from './settings-reply.ts';
import { GivenLogging, GivenSecurity, GivenUserKeys, Overridable } from './settings-schema.ts';
import { workspaceSettingsRoutes } from './settings-of-workspace.ts';
import { staleVersion } from './stale-version.ts';
import { strict } from './text-schema.ts';

const path = '/admin/organisation/settings';

const Body = Type.Object(
  {
    security: Type.Optional(GivenSecurity),
    user_api_keys: Type.Optional(GivenUserKeys),
    logging: Type.Optional(GivenLogging),
    allow_workspace_overrides: Type.Optional(Overridable),
  },
  strict,
);

/** The routes of the settings of organisations and of their workspaces. */
export function settingsRoutes(scope: Scope): readonly RouteDefinition[] {
  return [
    getRoute(scope),
    updateRoute(scope),
    ...organisationDefaultsRoutes(scope),
    ...workspaceSettingsRoutes(scope),
  ];
}

function getRoute({ features }: Scope): RouteDefinition {
  return defineRoute({
    id: 'organisation_settings.get',
    method: 'GET',
    path,
    summary: 'What members and managers may see and do, the bounds of the keys of people, and what is logged',
    scope: 'organisation_settings.read',
    // Reads only.
    audit: null,
    reply: OrganisationSettingsReply,
    examples: { response: showOrganisationSettings(defaultSettings(''), features) },
    async handle({ key, read, sendVersion }) {
      const found = await read(({ settings }) => settings.ofOrganisation(key.organisationId));
      sendVersion(found.version);
      return showOrganisationSettings(found, features);
    },
  });
}

function updateRoute({ clock, features }: Scope): RouteDefinition {
  return defineRoute({
    id: 'organisation_settings.update',
    method: 'PUT',
    path,
    summary: 'Changes the settings of the organisation; what is not given stays',
    scope: 'organisation_settings.update',
    audit: 'update',
    body: Body,
    reply: OrganisationSettingsReply,
    examples: {
      request: {
        security: { membersViewAllData: false },
        user_api_keys: { max_per_workspace: 20, default_days: 90, max_days: 365 },
        allow_workspace_overrides: ['data_visibility'],
      },
      response: showOrganisationSettings(defaultSettings(''), features),
    },
    async handle({ body, key, write, requireVersion, sendVersion }) {
      const changed = await write(async ({ settings }) => {
        const before = await settings.ofOrganisation(key.organisationId);
        requireVersion(before.version);
        const after: OrganisationSettings = {
          ...before,
          security: changedSecurity(body, before.security),
          overridable: body.allow_workspace_overrides ?? before.overridable,
          ...{ updatedAt: clock.now(), version: before.version + 1 },
        };
        if (!(await settings.replaceOrganisation(after))) throw staleVersion();
        return { id: key.organisationId, result: after };
      });
      sendVersion(changed.version);
      return showOrganisationSettings(changed, features);
    },
  });
}
