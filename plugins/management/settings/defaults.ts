import {
  type CheckPhase,
  defineRoute,
  type Scope,
  type Static,
  Type,
} from '../../../core/pipeline/plugin.ts';
import { Metadata, Name, orNull, refusedBody, strict } from '../shared/fields.ts';
import type {
  OrganisationDefaults,
  OrganisationSettings,
} from '../../../core/ports/organisation-settings.ts';
import { workspaceDefaults } from '../workspaces/defaults.ts';
import type { RouteDefinition, RouteInput } from '../../../core/pipeline/define-route.ts';
import type { ResourcesWriter } from '../../../core/ports/resources.ts';
import { places, storedRecords } from '../shared/records.ts';
import { configUses, type DefaultNames } from '../configs/uses.ts';

export const ChangedAt = orNull(Type.String({ description: 'Null before the first change.' }));

/** Defaults of an organisation's requests in the API. */
const OrganisationDefaultsReply = Type.Object({
  object: Type.Literal('organisation-defaults'),
  metadata: Metadata,
  config_id: orNull(Type.String()),
  input_guardrails: Type.Array(Type.String()),
  output_guardrails: Type.Array(Type.String()),
  last_updated_at: ChangedAt,
});

/** Converts an organisation's defaults to the API's shape. */
function showOrganisationDefaults({
  defaults,
  updatedAt,
  version,
}: OrganisationSettings): Static<typeof OrganisationDefaultsReply> {
  return {
    object: 'organisation-defaults',
    metadata: { ...defaults.metadata },
    config_id: defaults.configId ?? null,
    ...workspaceDefaults.showGuardrails(defaults),
    last_updated_at: changedAt(updatedAt, version),
  };
}

export function changedAt(at: number, version: number): string | null {
  return version === 0 ? null : new Date(at).toISOString();
}

/** Changes the settings of the caller's organisation and sends the new version. Throws for an outdated version. */
export async function changeSettings(
  {
    key,
    write,
    requireVersion,
    sendVersion,
  }: Pick<RouteInput<unknown, unknown, unknown>, 'key' | 'write' | 'requireVersion' | 'sendVersion'>,
  clock: Scope['clock'],
  change: (
    before: OrganisationSettings,
    writer: ResourcesWriter,
  ) => Partial<OrganisationSettings> | Promise<Partial<OrganisationSettings>>,
): Promise<OrganisationSettings> {
  const changed = await write(async (writer) => {
    const before = await writer.settings.ofOrganisation(key.organisationId);
    requireVersion(before.version);
    const stamp = { updatedAt: clock.now(), version: before.version + 1 };
    const after: OrganisationSettings = { ...before, ...(await change(before, writer)), ...stamp };
    if (!(await writer.settings.replaceOrganisation(after))) throw storedRecords.stale();
    return { id: key.organisationId, result: after };
  });
  sendVersion(changed.version);
  return changed;
}

const defaultsPath = '/admin/organisation/defaults';

const DefaultsBody = Type.Object(
  {
    metadata: Type.Optional(orNull(Metadata)),
    config_id: Type.Optional(orNull(Name('A config of this gateway.'))),
    ...workspaceDefaults.guardrails,
  },
  strict,
);

const defaultsExample: Static<typeof OrganisationDefaultsReply> = {
  object: 'organisation-defaults',
  metadata: { team: 'research' },
  config_id: 'main',
  input_guardrails: ['guard_no-secrets'],
  output_guardrails: [],
  last_updated_at: '2026-11-21T09:00:00.000Z',
};

/** The routes of the defaults of the organisation's requests, and of the workspaces that its guardrails leave out. */
export function organisationDefaultsRoutes(scope: Scope): readonly RouteDefinition[] {
  return [
    getDefaultsRoute(),
    updateDefaultsRoute(scope),
    ...exclusionRoutes(scope, 'input'),
    ...exclusionRoutes(scope, 'output'),
  ];
}

function getDefaultsRoute(): RouteDefinition {
  return defineRoute({
    id: 'organisation_defaults.get',
    method: 'GET',
    path: defaultsPath,
    summary: 'Defaults of requests of the organisation',
    scope: 'organisation_settings.read',
    // Reads only.
    audit: null,
    reply: OrganisationDefaultsReply,
    examples: { response: defaultsExample },
    async handle({ key, read, sendVersion }) {
      const found = await read(({ settings }) => settings.ofOrganisation(key.organisationId));
      sendVersion(found.version);
      return showOrganisationDefaults(found);
    },
  });
}

function updateDefaultsRoute({ clock, router }: Scope): RouteDefinition {
  return defineRoute({
    id: 'organisation_defaults.update',
    method: 'PUT',
    path: defaultsPath,
    summary: 'Updates the defaults of requests of the organisation; omitted fields stay unchanged',
    scope: 'organisation_settings.update',
    audit: 'update',
    body: DefaultsBody,
    reply: OrganisationDefaultsReply,
    examples: {
      request: { metadata: defaultsExample.metadata, config_id: 'main' },
      response: defaultsExample,
    },
    async handle(call) {
      const names = configUses.namesOfOrganisation(router, call.key.organisationId);
      const changed = await changeSettings(call, clock, ({ defaults }) => ({
        defaults: changedDefaults(call.body, defaults, names),
      }));
      return showOrganisationDefaults(changed);
    },
  });
}

function changedDefaults(
  body: Static<typeof DefaultsBody>,
  before: OrganisationDefaults,
  names: DefaultNames,
): OrganisationDefaults {
  const metadata = body.metadata === undefined ? before.metadata : (body.metadata ?? undefined);
  // An unchanged config is not checked again: it may no longer exist, and is not part of this change.
  const { configId: given } = workspaceDefaults.read({ config_id: body.config_id ?? null }, names, '');
  const configId = body.config_id === undefined ? before.configId : given;
  const { excludedWorkspaces } = before;
  return {
    ...(metadata !== undefined && { metadata }),
    ...(configId !== undefined && { configId }),
    ...workspaceDefaults.changedGuardrails(body, before, { names, pointer: '' }),
    ...(excludedWorkspaces !== undefined && { excludedWorkspaces }),
  };
}

/** Upper bound of workspaces excluded from the organisation's guardrails. */
const maxExcluded = 1000;

const ExclusionsBody = Type.Object(
  {
    organisation_id: Type.Optional(Name('Default: the organisation of the key.')),
    workspaces: Type.Array(
      Type.Object({ workspace_id: Name('Id or slug.'), excluded: Type.Boolean() }, strict),
      { maxItems: maxExcluded },
    ),
    override_existing: Type.Optional(
      Type.Boolean({
        default: false,
        description: 'Excluded workspaces; workspaces that are not listed are judged again.',
      }),
    ),
  },
  strict,
);
const ExclusionsReply = Type.Object({
  object: Type.Literal('workspace-exclusions'),
  organisation_id: Type.String(),
  workspaces: Type.Array(Type.Object({ workspace_id: Type.String(), excluded: Type.Literal(true) })),
});
const exclusionsExample: Static<typeof ExclusionsReply> = {
  object: 'workspace-exclusions',
  organisation_id: 'default',
  workspaces: [{ workspace_id: '0198a1c2-7b3e-7c4d-8e5f-6a7b8c9d0e1f', excluded: true }],
};

function showExclusions({ organisationId, defaults }: OrganisationSettings, phase: CheckPhase) {
  return {
    object: 'workspace-exclusions' as const,
    organisation_id: organisationId,
    workspaces: (defaults.excludedWorkspaces?.[phase] ?? []).map((id) => ({
      workspace_id: id,
      excluded: true as const,
    })),
  };
}

/** Routes of the workspaces excluded from the organisation's guardrails, for requests or for answers. */
function exclusionRoutes({ clock }: Scope, phase: CheckPhase): readonly RouteDefinition[] {
  const path = `/workspace-exclusions/${phase}-guardrails`;
  const judged = phase === 'input' ? 'requests' : 'answers';
  return [
    defineRoute({
      id: `workspace_exclusions.${phase}.list`,
      method: 'GET',
      path,
      summary: `Workspaces whose ${judged} the guardrails of the organisation do not judge`,
      scope: 'organisation_exclusions.list',
      // Reads only.
      audit: null,
      query: Type.Object(
        { organisation_id: Type.Optional(Name('Default: the organisation of the key.')) },
        strict,
      ),
      reply: ExclusionsReply,
      examples: { response: exclusionsExample },
      async handle({ query, key, read, sendVersion }) {
        places.requireOrganisation(key, query.organisation_id);
        const found = await read(({ settings }) => settings.ofOrganisation(key.organisationId));
        sendVersion(found.version);
        return showExclusions(found, phase);
      },
    }),
    defineRoute({
      id: `workspace_exclusions.${phase}.update`,
      method: 'PUT',
      path,
      summary: `Updates the workspaces whose ${judged} the guardrails of the organisation do not judge`,
      scope: 'organisation_exclusions.update',
      audit: 'update',
      body: ExclusionsBody,
      reply: ExclusionsReply,
      examples: {
        request: { workspaces: [{ workspace_id: 'ws-laboratory', excluded: true }] },
        response: exclusionsExample,
      },
      async handle(call) {
        const { body, key } = call;
        places.requireOrganisation(key, body.organisation_id);
        const changed = await changeSettings(call, clock, async ({ defaults }, { workspaces }) => {
          const { input, output } = defaults.excludedWorkspaces ?? { input: [], output: [] };
          const kept = body.override_existing === true ? [] : phase === 'input' ? input : output;
          const ids = new Set(kept);
          for (const [index, { workspace_id: named, excluded }] of body.workspaces.entries()) {
            const found = await workspaces.find(key.organisationId, named);
            if (found === undefined)
              throw refusedBody([{ path: `/workspaces/${index}/workspace_id`, message: noWorkspace(named) }]);
            if (excluded) ids.add(found.id);
            else ids.delete(found.id);
          }
          if (ids.size > maxExcluded)
            throw refusedBody([{ path: '/workspaces', message: `would exclude more than ${maxExcluded}` }]);
          return { defaults: { ...defaults, excludedWorkspaces: { input, output, [phase]: [...ids] } } };
        });
        return showExclusions(changed, phase);
      },
    }),
  ];
}

function noWorkspace(named: string): string {
  return `there is no workspace ${JSON.stringify(named)}; GET /workspaces lists them`;
}
