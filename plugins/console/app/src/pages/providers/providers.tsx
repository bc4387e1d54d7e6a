import { api, dataOf } from '@/api/client';
import type { operations } from '@/api/schema.gen';
import { useSession } from '@/api/session';
import { useAddressTexts } from '@/lib/address';
import { shortId, useWorkspaceNames } from '@/lib/names';
import { integrationScopes, kindFinder } from '@/pages/providers/settings';
import { RotateButton, TestButton } from '@/pages/providers/test';
import { withText, workspaceField } from '@/resource/common-fields';
import { type Finder, type FormField, type Resource, versioned } from '@/resource/declaration';
import { UsageBar } from '@/resource/limits';
import { ResourcePage } from '@/resource/page';
import { Tabs } from '@/resource/sheet';
import { common } from '@/texts/common';
import { providers as texts } from '@/texts/providers';
import { Page } from '@/ui/page';
import { Badge, Code, Time, type Tone } from '@/ui/small';

type Provider = operations['providers.get']['responses'][200]['content']['application/json'];
type VirtualKey = operations['virtual_keys.get']['responses'][200]['content']['application/json'];
type Body<O extends 'providers.create' | 'providers.update' | 'virtual_keys.create' | 'virtual_keys.update'> =
  NonNullable<operations[O]['requestBody']>['content']['application/json'];

const tones: Record<Provider['status'], Tone> = { active: 'good', exhausted: 'bad', expired: 'warn' };

function Status({ status }: Pick<Provider, 'status'>) {
  return <Badge tone={tones[status]}>{texts.statuses[status]}</Badge>;
}

function Used({ usage_limits: limit }: Pick<Provider, 'usage_limits'>) {
  if (limit === null) return null;
  return <UsageBar small used={limit.current_usage ?? 0} limit={limit.credit_limit} type={limit.type} />;
}

/** One integration has a provider of the same name in each workspace that uses it. */
function InWorkspace({ id }: { readonly id: string | null }) {
  const names = useWorkspaceNames();
  return id === null ? texts.organisation : (names.get(id) ?? shortId(id));
}

/** Limits and the end, which providers and virtual keys have alike. */
function boundFields<R extends Provider | VirtualKey>(): readonly FormField<R>[] {
  return [
    { kind: 'usage', path: '/usage_limits', label: texts.field.usage },
    { kind: 'rates', path: '/rate_limits', label: texts.field.rates },
    { kind: 'time', path: '/expires_at', label: texts.field.expires },
    { kind: 'long', path: '/note', label: texts.field.note },
  ];
}

const integrationFinder: Finder = {
  ...{ name: 'integrations', scopes: integrationScopes('list'), by: 'id' },
  async find(text) {
    const { data } = await dataOf(api.GET('/integrations', { params: { query: { page_size: 100 } } }));
    return withText(
      data.map(({ id, name, ai_provider_id: kind }) => ({ value: id, text: name, note: kind })),
      text,
    );
  },
};

const at = (slug: string) => ({ path: { slug } });

const providers: Resource<Provider, Body<'providers.create'>, Body<'providers.update'>> = {
  ...{ name: 'providers', ...texts.providers, audit: 'providers', inWorkspace: true },
  id: ({ id }) => id,
  label: ({ name }) => name,
  words: ({ slug, note }) => [slug, note],
  list: ({ page, size, workspace }) =>
    dataOf(
      api.GET('/providers', {
        params: {
          query: {
            ...{ current_page: page, page_size: size },
            ...(workspace !== '' && { workspace_id: workspace }),
          },
        },
      }),
    ),
  get: (id) => versioned(api.GET('/providers/{slug}', { params: at(id) })),
  columns: [
    {
      header: texts.column.name,
      cell: ({ row }) => <span className="font-medium">{row.original.name}</span>,
    },
    { header: texts.column.slug, cell: ({ row }) => <Code text={`@${row.original.slug}`} /> },
    { header: texts.workspace, cell: ({ row }) => <InWorkspace id={row.original.workspace_id} /> },
    {
      header: texts.column.status,
      meta: { isState: true },
      cell: ({ row }) => <Status status={row.original.status} />,
    },
    { header: texts.column.limit, cell: ({ row }) => <Used usage_limits={row.original.usage_limits} /> },
    { header: texts.column.changed, cell: ({ row }) => <Time iso={row.original.last_updated_at} ago /> },
  ],
  create: { scopes: ['providers.create'], run: (body) => dataOf(api.POST('/providers', { body })) },
  update: {
    scopes: ['providers.update'],
    run: (id, body, headers) => dataOf(api.PUT('/providers/{slug}', { params: at(id), body, headers })),
  },
  remove: {
    ...{ scopes: ['providers.delete'], action: common.action.delete, text: texts.providers.removeText },
    run: (id, headers) => dataOf(api.DELETE('/providers/{slug}', { params: at(id), headers })),
  },
  sections: [
    {
      title: texts.section.general,
      fields: [
        { kind: 'text', path: '/name', label: texts.field.name, required: true },
        {
          ...{ kind: 'reference', path: '/integration_id', label: texts.field.integration, only: 'create' },
          ...{ required: true, find: integrationFinder },
        },
        {
          ...{ kind: 'text', path: '/slug', label: texts.field.slug, help: texts.field.slugHelp },
          ...{ only: 'create', mono: true },
        },
        workspaceField<Provider>({ required: true }),
      ],
    },
    { title: texts.section.limits, fields: boundFields<Provider>() },
  ],
  details: ({ slug, id }) => (
    <p className="flex flex-wrap items-center gap-x-4 gap-y-1">
      <Code text={`@${slug}`} /> <Code text={id} />
    </p>
  ),
  actions: ({ name, slug }) => <TestButton name={name} slugs={[slug]} />,
};

const virtualKeys: Resource<VirtualKey, Body<'virtual_keys.create'>, Body<'virtual_keys.update'>> = {
  ...{ name: 'virtual-keys', ...texts.keys, audit: 'virtual_keys', inWorkspace: true },
  id: ({ slug }) => slug,
  label: ({ name }) => name,
  words: ({ slug, ai_provider_name: kind }) => [slug, kind],
  list: ({ page, size, workspace }) =>
    dataOf(
      api.GET('/virtual-keys', {
        params: {
          query: {
            ...{ current_page: page, page_size: size },
            ...(workspace !== '' && { workspace_id: workspace }),
          },
        },
      }),
    ),
  get: (id, workspace) =>
    versioned(
      api.GET('/virtual-keys/{slug}', {
        params: { ...at(id), query: workspace === '' ? {} : { workspace_id: workspace } },
      }),
    ),
  columns: [
    {
      header: texts.column.name,
      cell: ({ row }) => <span className="font-medium">{row.original.name}</span>,
    },
    { header: texts.column.kind, cell: ({ row }) => row.original.ai_provider_name },
    { header: texts.column.slug, cell: ({ row }) => <Code text={row.original.slug} /> },
    { header: texts.workspace, cell: ({ row }) => <InWorkspace id={row.original.workspace_id} /> },
    {
      header: texts.column.secret,
      cell: ({ row }) => <code className="font-mono text-xs">{row.original.masked_api_key || '–'}</code>,
    },
    {
      header: texts.column.status,
      meta: { isState: true },
      cell: ({ row }) => <Status status={row.original.status} />,
    },
    { header: texts.column.limit, cell: ({ row }) => <Used usage_limits={row.original.usage_limits} /> },
  ],
  create: { scopes: ['virtual_keys.create'], run: (body) => dataOf(api.POST('/virtual-keys', { body })) },
  update: {
    scopes: ['virtual_keys.update'],
    run: (id, body, headers) => dataOf(api.PUT('/virtual-keys/{slug}', { params: at(id), body, headers })),
  },
  remove: {
    ...{ scopes: ['virtual_keys.delete'], action: common.action.delete, text: texts.keys.removeText },
    run: (id, headers) => dataOf(api.DELETE('/virtual-keys/{slug}', { params: at(id), headers })),
  },
  sections: [
    {
      title: texts.section.general,
      fields: [
        {
          ...{ kind: 'reference', path: '/provider', label: texts.field.kind, only: 'create' },
          ...{ required: true, find: kindFinder },
          from: ({ ai_provider_name: kind }) => kind,
        },
        { kind: 'text', path: '/name', label: texts.field.name, required: true },
        {
          ...{ kind: 'text', path: '/slug', label: texts.field.slug, help: texts.field.slugHelp },
          ...{ only: 'create', mono: true },
        },
        workspaceField<VirtualKey>({ required: true }),
        {
          ...{ kind: 'secret', path: '/key', label: texts.field.key, help: texts.field.keyHelp, wide: true },
          from: ({ masked_api_key: masked }) => masked,
        },
        {
          ...{ kind: 'text', path: '/custom_host', label: texts.field.host, help: texts.field.hostHelp },
          ...{
            wide: true,
            empty: 'omit',
            from: ({ model_config: config }: VirtualKey) => config['custom_host'],
          },
        },
      ],
    },
    { title: texts.section.limits, fields: boundFields<VirtualKey>() },
  ],
  actions: (record, tools) => (
    <>
      <RotateButton
        name={record.name}
        reads="virtual-keys"
        masked={record.masked_api_key}
        version={tools.version}
        scopes={['virtual_keys.update']}
        store={async (key, headers) => {
          await dataOf(api.PUT('/virtual-keys/{slug}', { params: at(record.slug), body: { key }, headers }));
          const after = await dataOf(api.GET('/virtual-keys/{slug}', { params: at(record.slug) }));
          return after.masked_api_key;
        }}
      />
      <TestButton name={record.name} slugs={[record.slug]} />
    </>
  ),
};

/** `/providers`: providers, and virtual keys as older clients make them. */
export default function Providers() {
  const [{ view = 'providers' }, change] = useAddressTexts();
  const { may } = useSession();
  const isKeys = view === 'keys' && may('virtual_keys.list');
  return (
    <Page title={texts.providers.title}>
      {may('virtual_keys.list') && (
        <Tabs
          chosen={isKeys ? 'keys' : 'providers'}
          tabs={Object.entries(texts.providers.views)}
          onChange={(next) =>
            change({
              ...{ view: next === 'keys' ? next : undefined },
              ...{ open: undefined, page: undefined, search: undefined },
            })
          }
        />
      )}
      {isKeys ? <ResourcePage resource={virtualKeys} inner /> : <ResourcePage resource={providers} inner />}
    </Page>
  );
}
