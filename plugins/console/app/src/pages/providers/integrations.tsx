import { api, dataOf } from '@/api/client';
import type { operations } from '@/api/schema.gen';
import { Access, Models } from '@/pages/providers/models';
import { integrationScopes, kindFinder, Mappings, Settings } from '@/pages/providers/settings';
import { RotateButton, TestButton, useSlugsOf } from '@/pages/providers/test';
import { workspaceField } from '@/resource/common-fields';
import { type Resource, type Tools, versioned } from '@/resource/declaration';
import { ResourcePage } from '@/resource/page';
import { type Mapping, ShownMappings } from '@/resource/secret-mappings';
import { Facts } from '@/resource/shown';
import { common } from '@/texts/common';
import { providers as texts } from '@/texts/providers';
import { Badge, Code, Time } from '@/ui/small';

type Detail = operations['integrations.get']['responses'][200]['content']['application/json'];
type Entry = operations['integrations.list']['responses'][200]['content']['application/json']['data'][number];
type Create = NonNullable<operations['integrations.create']['requestBody']>['content']['application/json'];
type Update = NonNullable<operations['integrations.update']['requestBody']>['content']['application/json'];
/** An integration; in the list without what only its details say. */
type Row = Entry & Partial<Detail>;

const at = (slug: string) => ({ path: { slug } });
const kindOf = (values: Readonly<Record<string, unknown>>): string => String(values['/ai_provider_id'] ?? '');

const integrations: Resource<Row, Create, Update> = {
  ...{ name: 'integrations', ...texts.integrations, audit: 'integrations', inWorkspace: true },
  id: ({ id }) => id,
  label: ({ name }) => name,
  words: ({ slug, ai_provider_id: kind }) => [slug, kind],
  list: ({ page, size, workspace }) =>
    dataOf(
      api.GET('/integrations', {
        params: {
          query: {
            ...{ current_page: page, page_size: size },
            ...(workspace !== '' && { workspace_id: workspace }),
          },
        },
      }),
    ),
  get: (id) => versioned(api.GET('/integrations/{slug}', { params: at(id) })),
  columns: [
    {
      header: texts.column.name,
      cell: ({ row }) => <span className="font-medium">{row.original.name}</span>,
    },
    { header: texts.column.kind, cell: ({ row }) => row.original.ai_provider_id },
    { header: texts.column.slug, cell: ({ row }) => <Code text={row.original.slug} /> },
    {
      header: texts.column.place,
      cell: ({ row }) => (
        <Badge>{row.original.workspace_id === null ? texts.organisation : texts.workspace}</Badge>
      ),
    },
    {
      header: texts.column.status,
      meta: { isState: true },
      cell: ({ row }) => (
        <Badge tone={row.original.status === 'active' ? 'good' : 'neutral'}>
          {texts.statuses[row.original.status]}
        </Badge>
      ),
    },
    { header: texts.column.changed, cell: ({ row }) => <Time iso={row.original.last_updated_at} ago /> },
  ],
  create: { scopes: integrationScopes('create'), run: (body) => dataOf(api.POST('/integrations', { body })) },
  update: {
    scopes: integrationScopes('update'),
    run: (id, body, headers) => dataOf(api.PUT('/integrations/{slug}', { params: at(id), body, headers })),
  },
  remove: {
    ...{
      scopes: integrationScopes('delete'),
      action: common.action.delete,
      text: texts.integrations.removeText,
    },
    typed: ({ slug }) => slug,
    run: (id, headers) => dataOf(api.DELETE('/integrations/{slug}', { params: at(id), headers })),
  },
  sections: [
    {
      title: texts.section.general,
      fields: [
        {
          ...{ kind: 'reference', path: '/ai_provider_id', label: texts.field.kind, only: 'create' },
          ...{ required: true, find: kindFinder },
        },
        { kind: 'text', path: '/name', label: texts.field.name, required: true },
        {
          ...{ kind: 'text', path: '/slug', label: texts.field.slug, help: texts.field.slugHelp },
          ...{ only: 'create', mono: true },
        },
        workspaceField<Row>({ none: texts.field.workspaceNone }),
        { kind: 'long', path: '/description', label: texts.field.description },
      ],
    },
    {
      title: texts.section.credentials,
      fields: [
        {
          ...{ kind: 'secret', path: '/key', label: texts.field.key, help: texts.field.keyHelp },
          ...{ wide: true, from: ({ masked_key: masked }: Row) => masked },
        },
      ],
    },
    {
      title: texts.section.settings,
      fields: [
        {
          ...{ kind: 'own', path: '/configurations', label: texts.field.settings, initial: {} },
          control: ({ value, onChange, situation, disabled }) => (
            <Settings
              kind={situation.record?.ai_provider_id ?? kindOf(situation.values)}
              value={(value ?? {}) as Readonly<Record<string, unknown>>}
              onChange={onChange}
              disabled={disabled}
            />
          ),
          show: ({ configurations = {} }) => <ShownSettings settings={configurations} />,
        },
      ],
    },
    {
      ...{ title: texts.section.mappings, folded: true },
      fields: [
        {
          ...{ kind: 'own', path: '/secret_mappings', label: texts.field.mappings, initial: [] },
          control: ({ value, onChange, situation, disabled }) => (
            <Mappings
              kind={situation.record?.ai_provider_id ?? kindOf(situation.values)}
              value={(value ?? []) as readonly Mapping[]}
              onChange={onChange}
              disabled={disabled}
            />
          ),
          show: ({ secret_mappings: mappings = [] }) => <ShownMappings mappings={mappings} />,
        },
      ],
    },
  ],
  details: ({ slug, id }) => (
    <p className="flex flex-wrap items-center gap-x-4 gap-y-1">
      <Code text={slug} /> <Code text={id} />
    </p>
  ),
  actions: (record, tools) => <Actions record={record} tools={tools} />,
  tabs: [
    {
      ...{ key: 'models', text: texts.tabs.models, scopes: integrationScopes('read') },
      body: (record) => <Models {...tabOf(record)} />,
    },
    {
      ...{ key: 'workspaces', text: texts.tabs.workspaces, scopes: ['organisation_integrations.read'] },
      body: (record) => <Access {...tabOf(record)} />,
    },
  ],
};

function tabOf({ id, workspace_id: workspace, managed_by: by }: Row) {
  return { id, workspace, editable: by === 'api' };
}

function Actions({ record, tools }: { readonly record: Row; readonly tools: Tools }) {
  const slugs = useSlugsOf(record.id);
  return (
    <>
      <RotateButton
        name={record.name}
        reads="integrations"
        masked={record.masked_key ?? ''}
        version={tools.version}
        scopes={[
          record.workspace_id === null ? 'organisation_integrations.update' : 'workspace_integrations.update',
        ]}
        store={async (key, headers) => {
          const after = await dataOf(
            api.PUT('/integrations/{slug}', { params: at(record.id), body: { key }, headers }),
          );
          return after.masked_key;
        }}
      />
      <TestButton name={record.name} slugs={slugs} />
    </>
  );
}

function ShownSettings({ settings }: { readonly settings: Readonly<Record<string, unknown>> }) {
  const rows = Object.entries(settings);
  if (rows.length === 0) return <span className="text-soft">–</span>;
  return (
    <Facts
      rows={rows.map(([name, value]) => [
        name,
        <span className="font-mono text-xs break-words">
          {typeof value === 'string' ? value : JSON.stringify(value)}
        </span>,
      ])}
    />
  );
}

/** `/integrations`. */
export default function Integrations() {
  return <ResourcePage resource={integrations} />;
}
