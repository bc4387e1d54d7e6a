import { useMutation } from '@tanstack/react-query';
import { Zap } from 'lucide-react';
import { api, dataOf } from '@/api/client';
import type { operations } from '@/api/schema.gen';
import { useSession } from '@/api/session';
import { useAddressTexts } from '@/lib/address';
import { duration } from '@/lib/format';
import { Connections, UserAccess, Workspaces } from '@/pages/mcp/access';
import { Asked, Capabilities } from '@/pages/mcp/capabilities';
import { OauthFields, type OauthSettings, type ToolChoice, Tools } from '@/pages/mcp/fields';
import { TryTool } from '@/pages/mcp/try';
import { withText, workspaceField } from '@/resource/common-fields';
import { type Finder, type Option, type Resource, versioned } from '@/resource/declaration';
import { ResourcePage } from '@/resource/page';
import { type Mapping, SecretMappings, ShownMappings } from '@/resource/secret-mappings';
import { Tabs } from '@/resource/sheet';
import { Facts } from '@/resource/shown';
import { common } from '@/texts/common';
import { mcp as texts } from '@/texts/mcp';
import { Button } from '@/ui/button';
import { Page } from '@/ui/page';
import { Badge, Code, Time } from '@/ui/small';
import { useToast } from '@/ui/toast';

type Ok<O extends 'mcp_integrations.get' | 'mcp_servers.get' | 'mcp_virtual_servers.get'> =
  operations[O]['responses'][200]['content']['application/json'];
type Writes = `mcp_${'integrations' | 'servers' | 'virtual_servers'}.${'create' | 'update'}`;
type Body<O extends Writes> = NonNullable<operations[O]['requestBody']>['content']['application/json'];

type IntegrationEntry =
  operations['mcp_integrations.list']['responses'][200]['content']['application/json']['data'][number];
type ServerEntry =
  operations['mcp_servers.list']['responses'][200]['content']['application/json']['data'][number];
/** Records; in lists without what only their details say. */
type Integration = IntegrationEntry & Partial<Ok<'mcp_integrations.get'>>;
type Server = Pick<
  ServerEntry,
  'id' | 'name' | 'slug' | 'status' | 'url' | 'description' | 'last_updated_at' | 'mcp_integration_id'
>;
type Virtual = Ok<'mcp_virtual_servers.get'>;

const optionsOf = (all: Readonly<Record<string, string>>): readonly Option[] =>
  Object.entries(all).map(([value, text]) => ({ value, text }));
const name = (text: string) => <span className="font-medium">{text}</span>;
const isOauth = (auth: unknown): boolean => String(auth).startsWith('oauth');

const ofIntegration = (mcpIntegrationId: string) => ({ path: { mcpIntegrationId } });
const both = (action: string): string[] => [
  `organisation_mcp_integrations.${action}`,
  `workspace_mcp_integrations.${action}`,
];

const integrations: Resource<
  Integration,
  Body<'mcp_integrations.create'>,
  Body<'mcp_integrations.update'>
> = {
  ...{ name: 'mcp-integrations', ...texts.integrations, audit: 'mcp_integrations', inWorkspace: true },
  id: ({ id }) => id,
  label: (record) => record.name,
  words: ({ slug, url }) => [slug, url],
  list: ({ page, size, workspace }) =>
    dataOf(
      api.GET('/mcp-integrations', {
        params: {
          query: {
            ...{ current_page: page, page_size: size },
            ...(workspace !== '' && { workspace_id: workspace }),
          },
        },
      }),
    ),
  get: (id) => versioned(api.GET('/mcp-integrations/{mcpIntegrationId}', { params: ofIntegration(id) })),
  columns: [
    { header: texts.column.name, cell: ({ row }) => name(row.original.name) },
    { header: texts.column.address, cell: ({ row }) => row.original.url },
    { header: texts.column.sign, cell: ({ row }) => texts.field.auths[row.original.auth_type] },
    {
      header: texts.column.place,
      cell: ({ row }) => (
        <Badge>{row.original.workspace_id === null ? texts.organisation : texts.workspace}</Badge>
      ),
    },
    { header: texts.column.changed, cell: ({ row }) => <Time iso={row.original.last_updated_at} ago /> },
  ],
  create: { scopes: both('create'), run: (body) => dataOf(api.POST('/mcp-integrations', { body })) },
  update: {
    scopes: both('update'),
    run: (id, body, headers) =>
      dataOf(api.PUT('/mcp-integrations/{mcpIntegrationId}', { params: ofIntegration(id), body, headers })),
  },
  remove: {
    ...{ scopes: both('delete'), action: common.action.delete, text: texts.integrations.removeText },
    run: (id, headers) =>
      dataOf(api.DELETE('/mcp-integrations/{mcpIntegrationId}', { params: ofIntegration(id), headers })),
  },
  sections: [
    {
      title: texts.section.general,
      fields: [
        { kind: 'text', path: '/name', label: texts.field.name, required: true },
        { kind: 'text', path: '/slug', label: texts.field.slug, only: 'create', mono: true },
        workspaceField<Integration>({ none: texts.field.workspaceNone }),
        { kind: 'long', path: '/description', label: texts.field.description },
      ],
    },
    {
      title: texts.section.connection,
      fields: [
        {
          ...{ kind: 'text', path: '/url', label: texts.field.url, required: true, mono: true, wide: true },
          placeholder: 'https://tickets.example.com/mcp',
        },
        {
          ...{ kind: 'choice', path: '/transport', label: texts.field.transport, initial: 'http' },
          options: optionsOf(texts.field.transports),
        },
        {
          ...{ kind: 'choice', path: '/auth_type', label: texts.field.auth, initial: 'none' },
          options: optionsOf(texts.field.auths),
        },
        {
          ...{ kind: 'pairs', path: '/configurations/custom_headers', label: texts.field.headers },
          ...{ secret: true, help: texts.field.headersHelp },
        },
        {
          ...{ kind: 'pairs', path: '/configurations/identity_headers', label: texts.field.identity },
          help: texts.field.identityHelp,
        },
        {
          ...{ kind: 'own', path: '/configurations/oauth', label: texts.field.oauth },
          shown: ({ values }) => isOauth(values['/auth_type']),
          control: ({ value, onChange, disabled }) => (
            <OauthFields value={(value ?? {}) as OauthSettings} onChange={onChange} disabled={disabled} />
          ),
          show: ({ configurations }) => (
            <Facts rows={Object.entries(configurations?.oauth ?? {}).map(([key, text]) => [key, text])} />
          ),
        },
      ],
    },
    {
      ...{ title: texts.section.mappings, folded: true, help: texts.section.mappingsHelp },
      fields: [
        {
          ...{ kind: 'own', path: '/secret_mappings', label: texts.field.mappings },
          ...{ initial: [], wide: true },
          control: ({ value, onChange, situation, disabled }) => (
            <SecretMappings
              targets={[
                'configurations.custom_headers',
                ...(isOauth(situation.values['/auth_type'])
                  ? ['configurations.oauth.client_secret', 'configurations.oauth.private_key']
                  : []),
              ]}
              open={{
                prefix: 'configurations.custom_headers.',
                text: texts.field.mappedHeader,
                name: texts.field.headerName,
              }}
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
    <div className="grid gap-4">
      <p className="flex flex-wrap items-center gap-x-4 gap-y-1">
        <Code text={slug} /> <Code text={id} />
      </p>
      <Asked id={id} />
    </div>
  ),
  tabs: [
    {
      ...{ key: 'tools', text: texts.tabs.tools },
      body: ({ id }) => (
        <div className="grid gap-4">
          <Asked id={id} />
          <Capabilities of="integration" id={id} scopes={both('update')} />
        </div>
      ),
    },
    {
      ...{ key: 'workspaces', text: texts.tabs.workspaces, scopes: ['organisation_mcp_integrations.read'] },
      body: ({ id, workspace_id: workspace }) => <Workspaces id={id} workspace={workspace} />,
    },
  ],
};

const integrationFinder: Finder = {
  ...{ name: 'mcp-integrations', scopes: both('list'), by: 'id' },
  async find(text) {
    const { data } = await dataOf(api.GET('/mcp-integrations', { params: { query: { page_size: 100 } } }));
    return withText(
      data.map(({ id, name, slug }) => ({ value: id, text: name, note: slug })),
      text,
    );
  },
};

const ofServer = (mcpServerId: string) => ({ path: { mcpServerId } });
const serverScopes = (action: string): string[] => [`mcp_servers.${action}`];

const servers: Resource<Server, Body<'mcp_servers.create'>, Body<'mcp_servers.update'>> = {
  ...{ name: 'mcp-servers', ...texts.servers, audit: 'mcp_servers', inWorkspace: true },
  id: ({ id }) => id,
  label: (record) => record.name,
  words: ({ slug }) => [slug],
  list: ({ page, size, workspace }) =>
    dataOf(
      api.GET('/mcp-servers', {
        params: {
          query: {
            ...{ current_page: page, page_size: size },
            ...(workspace !== '' && { workspace_id: workspace }),
          },
        },
      }),
    ),
  get: (id) => versioned(api.GET('/mcp-servers/{mcpServerId}', { params: ofServer(id) })),
  columns: [
    { header: texts.column.name, cell: ({ row }) => name(row.original.name) },
    { header: texts.column.slug, cell: ({ row }) => <Code text={`/${row.original.slug}/mcp`} /> },
    {
      header: texts.column.status,
      meta: { isState: true },
      cell: ({ row: { original } }) => (
        <Badge tone={original.status === 'active' ? 'good' : 'warn'}>{texts.statuses[original.status]}</Badge>
      ),
    },
    { header: texts.column.changed, cell: ({ row }) => <Time iso={row.original.last_updated_at} ago /> },
  ],
  create: { scopes: serverScopes('create'), run: (body) => dataOf(api.POST('/mcp-servers', { body })) },
  update: {
    scopes: serverScopes('update'),
    run: (id, body, headers) =>
      dataOf(api.PUT('/mcp-servers/{mcpServerId}', { params: ofServer(id), body, headers })),
  },
  remove: {
    ...{ scopes: serverScopes('delete'), action: common.action.delete, text: texts.servers.removeText },
    run: (id, headers) => dataOf(api.DELETE('/mcp-servers/{mcpServerId}', { params: ofServer(id), headers })),
  },
  sections: [
    {
      title: texts.section.general,
      fields: [
        { kind: 'text', path: '/name', label: texts.field.name, required: true },
        {
          ...{ kind: 'reference', path: '/mcp_integration_id', label: texts.field.integration },
          ...{ only: 'create', required: true, find: integrationFinder },
        },
        {
          ...{ kind: 'text', path: '/slug', label: texts.field.slug, help: texts.field.slugHelp },
          ...{ only: 'create', mono: true },
        },
        workspaceField<Server>({ required: true }),
        { kind: 'long', path: '/description', label: texts.field.description },
      ],
    },
  ],
  details: ({ slug, url, id }) => (
    <p className="flex flex-wrap items-center gap-x-4 gap-y-1">
      <Code text={url ?? `/${slug}/mcp`} /> <Code text={id} />
    </p>
  ),
  actions: ({ id }) => <TestServer id={id} />,
  tabs: [
    {
      ...{ key: 'tools', text: texts.tabs.tools, scopes: ['mcp_servers.read'] },
      body: ({ id }) => <Capabilities of="server" id={id} scopes={serverScopes('update')} />,
    },
    {
      ...{ key: 'try', text: texts.tabs.try, scopes: ['mcp.invoke'] },
      body: ({ slug }) => <TryTool key={slug} slug={slug} />,
    },
    {
      ...{ key: 'access', text: texts.tabs.access, scopes: ['mcp_servers.read'] },
      body: ({ id }) => <UserAccess id={id} />,
    },
    {
      ...{ key: 'connections', text: texts.tabs.connections, scopes: ['mcp_servers.read'] },
      body: ({ id }) => <Connections id={id} />,
    },
  ],
};

/** Shakes hands with a server now, and says what came of it. */
function TestServer({ id }: { readonly id: string }) {
  const say = useToast();
  const test = useMutation({
    mutationFn: () => dataOf(api.POST('/mcp-servers/{mcpServerId}/test', { params: ofServer(id), body: {} })),
    onSuccess: ({ success, error, server_name: found, response_time_ms: ms }) =>
      say(
        success
          ? { text: texts.test.yes(found, duration(ms ?? 0)), tone: 'good' }
          : { text: texts.test.no(error ?? ''), tone: 'bad' },
      ),
    onError: (error) => say({ text: error.message, tone: 'bad' }),
  });
  return (
    <Button busy={test.isPending} onClick={() => test.mutate()}>
      <Zap className="size-4" />
      {texts.test.button}
    </Button>
  );
}

const ofVirtual = (mcpVirtualServerId: string) => ({ path: { mcpVirtualServerId } });

const virtual: Resource<Virtual, Body<'mcp_virtual_servers.create'>, Body<'mcp_virtual_servers.update'>> = {
  ...{ name: 'mcp-virtual-servers', ...texts.virtual, audit: 'mcp_virtual_servers', inWorkspace: true },
  id: ({ id }) => id,
  label: (record) => record.name,
  words: ({ slug }) => [slug],
  list: ({ page, size, workspace }) =>
    dataOf(
      api.GET('/mcp-virtual-servers', {
        params: {
          query: {
            ...{ current_page: page, page_size: size },
            ...(workspace !== '' && { workspace_id: workspace }),
          },
        },
      }),
    ),
  get: (id) => versioned(api.GET('/mcp-virtual-servers/{mcpVirtualServerId}', { params: ofVirtual(id) })),
  columns: [
    { header: texts.column.name, cell: ({ row }) => name(row.original.name) },
    { header: texts.column.slug, cell: ({ row }) => <Code text={`/${row.original.slug}/mcp`} /> },
    { header: texts.column.mode, cell: ({ row }) => texts.field.modes[row.original.mode] },
    { header: texts.column.changed, cell: ({ row }) => <Time iso={row.original.last_updated_at} ago /> },
  ],
  create: {
    scopes: serverScopes('create'),
    run: (body) => dataOf(api.POST('/mcp-virtual-servers', { body })),
  },
  update: {
    scopes: serverScopes('update'),
    run: (id, body, headers) =>
      dataOf(api.PUT('/mcp-virtual-servers/{mcpVirtualServerId}', { params: ofVirtual(id), body, headers })),
  },
  remove: {
    ...{ scopes: serverScopes('delete'), action: common.action.delete, text: texts.virtual.removeText },
    run: (id, headers) =>
      dataOf(api.DELETE('/mcp-virtual-servers/{mcpVirtualServerId}', { params: ofVirtual(id), headers })),
  },
  sections: [
    {
      title: texts.section.general,
      fields: [
        { kind: 'text', path: '/name', label: texts.field.name, required: true },
        {
          ...{ kind: 'text', path: '/slug', label: texts.field.slug, help: texts.field.slugHelp },
          ...{ only: 'create', mono: true },
        },
        workspaceField<Virtual>({ required: true }),
        {
          ...{ kind: 'choice', path: '/mode', label: texts.field.mode, initial: 'list' },
          options: optionsOf(texts.field.modes),
        },
        { kind: 'long', path: '/description', label: texts.field.description },
        { kind: 'long', path: '/instructions', label: texts.field.instructions },
      ],
    },
    {
      title: texts.section.members,
      fields: [
        { kind: 'lines', path: '/servers', label: texts.field.servers, help: texts.field.serversHelp },
        {
          ...{ kind: 'own', path: '/tools', label: texts.field.tools, help: texts.field.toolsHelp },
          control: ({ value, onChange, disabled }) => (
            <Tools value={(value ?? []) as readonly ToolChoice[]} onChange={onChange} disabled={disabled} />
          ),
          show: ({ tools }) =>
            (tools ?? []).map(({ server, tool, name: shown }) => (
              <p key={`${server} ${tool}`} className="font-mono text-xs">
                {server}: {tool}
                {shown !== undefined && ` → ${shown}`}
              </p>
            )),
        },
      ],
    },
  ],
  tabs: [
    {
      ...{ key: 'try', text: texts.tabs.try, scopes: ['mcp.invoke'] },
      body: ({ slug }) => <TryTool key={slug} slug={slug} />,
    },
  ],
};

/** `/mcp`: servers, the integrations behind them, and virtual servers. */
export default function Mcp() {
  const [{ view }, change] = useAddressTexts();
  const { may } = useSession();
  const views = Object.entries(texts.views).filter(([key]) =>
    key === 'integrations' ? may(...both('list')) : may('mcp_servers.list'),
  );
  const chosen = views.find(([key]) => key === view)?.[0] ?? views[0]?.[0] ?? 'servers';
  const nothing = { open: undefined, new: undefined, edit: undefined, tab: undefined, kind: undefined };
  return (
    <Page title={texts.title}>
      <Tabs
        chosen={chosen}
        tabs={views}
        onChange={(next) => change({ view: next, page: undefined, search: undefined, ...nothing })}
      />
      {chosen === 'integrations' && <ResourcePage resource={integrations} inner />}
      {chosen === 'servers' && <ResourcePage resource={servers} inner />}
      {chosen === 'virtual' && <ResourcePage resource={virtual} inner />}
    </Page>
  );
}
