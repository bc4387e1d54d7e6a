import { useState } from 'react';
import { RotateCcw } from 'lucide-react';
import { api, dataOf } from '@/api/client';
import type { operations } from '@/api/schema.gen';
import { useSession } from '@/api/session';
import { Members } from '@/pages/people/members';
import { Overrides } from '@/pages/settings/overrides';
import { WhatGoes } from '@/pages/workspaces/what-goes';
import { configFinder } from '@/resource/common-fields';
import { type Resource, type Tools, versioned } from '@/resource/declaration';
import { UsageBar } from '@/resource/limits';
import { ResourcePage } from '@/resource/page';
import { workspaces as texts } from '@/texts/workspaces';
import { Button } from '@/ui/button';
import { Confirm } from '@/ui/dialog';
import { Badge, Code, Time } from '@/ui/small';
import { useToast } from '@/ui/toast';

type Workspace =
  operations['workspaces.list']['responses'][200]['content']['application/json']['data'][number];
type Create = NonNullable<operations['workspaces.create']['requestBody']>['content']['application/json'];
type Update = NonNullable<operations['workspaces.update']['requestBody']>['content']['application/json'];

const at = (workspaceId: string) => ({ path: { workspaceId } });
const guardrails = (path: string, label: string) =>
  ({ kind: 'lines', path, label, help: texts.field.guardrailsHelp, wide: false }) as const;

const workspaces: Resource<Workspace, Create, Update> = {
  ...{ name: 'workspaces', noun: texts.noun, title: texts.title, intro: texts.intro, empty: texts.empty },
  audit: 'workspaces',
  id: ({ id }) => id,
  label: ({ name }) => name,
  searches: true,
  statuses: [
    ['active', texts.statuses.active],
    ['archived', texts.statuses.archived],
    ['active,archived', texts.statuses.both],
  ],
  list: ({ page, size, search, status }) =>
    dataOf(
      api.GET('/admin/workspaces', {
        params: {
          query: {
            ...{ current_page: page, page_size: size },
            ...(search !== '' && { name: search }),
            // Only owners and admins may ask for archived ones; `active` is what others are shown.
            ...(status !== 'active' && { status }),
          },
        },
      }),
    ),
  get: (id) => versioned(api.GET('/admin/workspaces/{workspaceId}', { params: at(id) })),
  columns: [
    {
      header: texts.column.name,
      cell: ({ row: { original } }) => (
        <span className="flex items-center gap-2">
          <span className="truncate font-medium">{original.name}</span>
          {original.defaults.is_default === 1 && <Badge>{texts.isDefault}</Badge>}
        </span>
      ),
    },
    { header: texts.column.slug, cell: ({ row }) => <Code text={row.original.slug} /> },
    {
      header: texts.column.status,
      meta: { isState: true },
      cell: ({ row: { original } }) => (
        <Badge tone={original.status === 'active' ? 'good' : 'neutral'}>
          {texts.statuses[original.status]}
        </Badge>
      ),
    },
    {
      header: texts.column.limits,
      cell: ({ row: { original } }) => {
        const [limit] = original.usage_limits;
        if (limit === undefined) return null;
        return (
          <UsageBar small used={limit.current_usage ?? 0} limit={limit.credit_limit} type={limit.type} />
        );
      },
    },
    { header: texts.column.changed, cell: ({ row }) => <Time iso={row.original.last_updated_at} ago /> },
  ],
  create: { scopes: ['workspaces.create'], run: (body) => dataOf(api.POST('/admin/workspaces', { body })) },
  update: {
    scopes: ['workspaces.update'],
    refused: ({ status }) => (status === 'archived' ? texts.archived : undefined),
    run: (id, body, headers) =>
      dataOf(api.PUT('/admin/workspaces/{workspaceId}', { params: at(id), body, headers })),
  },
  remove: {
    ...{ scopes: ['workspaces.delete'], action: texts.archive },
    text: ({ id }) => <WhatGoes id={id} />,
    typed: ({ name }) => name,
    shown: ({ status, defaults }) => status === 'active' && defaults.is_default !== 1,
    run: (id, headers) => dataOf(api.DELETE('/admin/workspaces/{workspaceId}', { params: at(id), headers })),
  },
  sections: [
    {
      title: texts.section.general,
      fields: [
        { kind: 'text', path: '/name', label: texts.field.name, required: true },
        { kind: 'long', path: '/description', label: texts.field.description },
        {
          ...{ kind: 'lines', path: '/users', label: texts.field.users, help: texts.field.usersHelp },
          only: 'create',
          shown: ({ record }) => record === undefined,
        },
      ],
    },
    {
      title: texts.section.limits,
      fields: [
        {
          ...{ kind: 'usage', path: '/usage_limits', several: true, label: texts.field.usage },
          help: texts.field.usageHelp,
        },
        { kind: 'rates', path: '/rate_limits', label: texts.field.rates, help: texts.field.ratesHelp },
      ],
    },
    {
      title: texts.section.defaults,
      folded: true,
      fields: [
        {
          ...{ kind: 'pairs', path: '/defaults/metadata', label: texts.field.metadata },
          help: texts.field.metadataHelp,
        },
        {
          ...{ kind: 'reference', path: '/defaults/config_id', label: texts.field.config },
          ...{ help: texts.field.configHelp, wide: true, find: configFinder },
        },
        {
          ...{ kind: 'lines', path: '/defaults/allowed_models', label: texts.field.models },
          ...{ help: texts.field.modelsHelp, noneIsNull: true },
        },
        guardrails('/defaults/input_guardrails', texts.field.inputGuardrails),
        guardrails('/defaults/output_guardrails', texts.field.outputGuardrails),
      ],
    },
  ],
  details: ({ id, slug, created_at: created }) => (
    <p className="flex flex-wrap items-center gap-x-4 gap-y-1">
      <span>
        {texts.field.slug} <Code text={slug} />
      </span>
      <span>
        {texts.field.id} <Code text={id} />
      </span>
      <span className="text-soft">
        {texts.field.created} <Time iso={created} />
      </span>
    </p>
  ),
  tabs: [
    {
      ...{ key: 'members', text: texts.members, scopes: ['workspace_users.list'] },
      body: ({ id }) => <Members workspaceId={id} />,
    },
    {
      ...{ key: 'settings', text: texts.settings, scopes: ['organisation_settings.read'] },
      body: ({ id }) => <Overrides workspaceId={id} />,
    },
  ],
  actions: (workspace, tools) =>
    workspace.usage_limits.length > 0 &&
    workspace.status === 'active' && <ResetUsage {...{ workspace, tools }} />,
};

function ResetUsage({ workspace, tools }: { readonly workspace: Workspace; readonly tools: Tools }) {
  const [asks, setAsks] = useState(false);
  const say = useToast();
  const { may } = useSession();
  if (!may('workspaces.update')) return null;
  return (
    <>
      <Button onClick={() => setAsks(true)}>
        <RotateCcw className="size-4" />
        {texts.reset}
      </Button>
      <Confirm
        open={asks}
        onOpenChange={setAsks}
        title={texts.resetTitle}
        text={texts.resetText}
        action={texts.reset}
        onConfirm={async () => {
          await api.PUT('/admin/workspaces/{workspaceId}', {
            params: at(workspace.id),
            body: { reset_usage: true },
          });
          await tools.refresh();
          say({ text: texts.resetDone, tone: 'good' });
        }}
      />
    </>
  );
}

export default function Workspaces() {
  return <ResourcePage resource={workspaces} />;
}
