import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { defineRoute, Type, type Scope, type Static } from '../../core/pipeline/plugin.ts';
import type { WorkspaceSettings } from '../../core/ports/organisation-settings.ts';
import { requireActive } from './require-active.ts';
import { changedOverrides } from './settings-body.ts';
import { showWorkspaceSettings, shownDefaults, WorkspaceSettingsReply } from './settings-reply.ts';
import { GivenCategories } from './settings-schema.ts';
import { staleVersion } from './stale-version.ts';
import { Identifier, strict } from './text-schema.ts';
import { visibleWorkspace } from './visible-workspace.ts';
import { workspacePlaces, type WorkspacePlace } from './workspace-places.ts';

const Params = Type.Object({ workspaceId: Identifier });

const Body = Type.Object({ overrides: GivenCategories }, strict);

const { data_visibility: visibility } = shownDefaults;
const stricter = { ...visibility, membersViewAllData: false };
const example: Static<typeof WorkspaceSettingsReply> = {
  object: 'workspace-settings',
  workspace_id: '0198a1c2-7b3e-7c4d-8e5f-6a7b8c9d0e1f',
  overrides: { data_visibility: stricter, prompts: null, configs: null, user_api_keys: null, logging: null },
  effective: { ...shownDefaults, data_visibility: stricter },
  allow_workspace_overrides: ['data_visibility'],
  last_updated_at: '2026-11-21T09:00:00.000Z',
};

/** What a workspace says instead of its organisation, under both paths of workspaces. */
export function workspaceSettingsRoutes(scope: Scope): readonly RouteDefinition[] {
  return workspacePlaces.flatMap((place) => [getRoute(place), updateRoute(scope, place)]);
}

function getRoute({ path, suffix }: WorkspacePlace): RouteDefinition {
  return defineRoute({
    id: `workspace_settings.get${suffix}`,
    method: 'GET',
    path: `${path}/{workspaceId}/settings`,
    summary: 'What a workspace says instead of its organisation, and what holds in it',
    scope: 'organisation_settings.read',
    // Reads only.
    audit: null,
    params: Params,
    reply: WorkspaceSettingsReply,
    examples: { response: example },
    async handle({ params, key, read, sendVersion }) {
      const { organisation, workspace } = await read(async (reader) => {
        const { organisationId, id } = await visibleWorkspace(reader, key, params.workspaceId);
        return {
          organisation: await reader.settings.ofOrganisation(organisationId),
          workspace: await reader.settings.ofWorkspace(organisationId, id),
        };
      });
      sendVersion(workspace.version);
      return showWorkspaceSettings(workspace, organisation);
    },
  });
}

function updateRoute({ clock }: Scope, { path, suffix }: WorkspacePlace): RouteDefinition {
  return defineRoute({
    id: `workspace_settings.update${suffix}`,
    method: 'PUT',
    path: `${path}/{workspaceId}/settings`,
    summary: 'Changes what a workspace says instead of its organisation; what is not given stays',
    scope: 'organisation_settings.update',
    audit: 'update',
    params: Params,
    body: Body,
    reply: WorkspaceSettingsReply,
    examples: {
      request: { overrides: { data_visibility: { membersViewAllData: false }, prompts: null } },
      response: example,
    },
    async handle({ params, body, key, write, requireVersion, sendVersion }) {
      const { organisation, workspace } = await write(async (writer) => {
        const record = await visibleWorkspace(writer, key, params.workspaceId);
        const { organisationId, id } = record;
        const { settings } = writer;
        const before = await settings.ofWorkspace(organisationId, id);
        requireVersion(before.version);
        requireActive(record);
        const organisation = await settings.ofOrganisation(organisationId);
        const after: WorkspaceSettings = {
          ...before,
          overrides: changedOverrides(body.overrides, before.overrides, organisation),
          ...{ updatedAt: clock.now(), version: before.version + 1 },
        };
        if (!(await settings.replaceWorkspace(after))) throw staleVersion();
        return { id, workspaceId: id, result: { organisation, workspace: after } };
      });
      sendVersion(workspace.version);
      return showWorkspaceSettings(workspace, organisation);
    },
  });
}
