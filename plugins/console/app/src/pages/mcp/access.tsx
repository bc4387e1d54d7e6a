import { useState } from 'react';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { api, dataOf } from '@/api/client';
import type { operations } from '@/api/schema.gen';
import { useSession } from '@/api/session';
import { versioned } from '@/resource/declaration';
import { mcp as texts } from '@/texts/mcp';
import { Button } from '@/ui/button';
import { type Columns, DataTable } from '@/ui/data-table';
import { Confirm } from '@/ui/dialog';
import { Field, Select, Switch } from '@/ui/fields';
import { Badge, Time } from '@/ui/small';
import { Empty, Loaded } from '@/ui/states';
import { useToast } from '@/ui/toast';

type Body<O extends 'mcp_integration_workspaces.update' | 'mcp_server_user_access.update'> = NonNullable<
  operations[O]['requestBody']
>['content']['application/json'];

/** Saves with the version that was read, says so, and reads again whatever came of it. */
function useSave<B>(key: readonly string[], run: (body: B) => Promise<unknown>) {
  const queries = useQueryClient();
  const say = useToast();
  return useMutation({
    mutationFn: run,
    onSuccess: () => say({ text: texts.access.saved, tone: 'good' }),
    onError: (error) => say({ text: error.message, tone: 'bad' }),
    onSettled: () => queries.invalidateQueries({ queryKey: key }),
  });
}

const headersOf = (version: string | undefined): Record<string, string> =>
  version === undefined ? {} : { 'if-match': version };

interface WorkspacesProps {
  readonly id: string;
  readonly workspace: string | null;
}

/** The workspaces that may use an integration of the organisation. */
export function Workspaces({ id, workspace }: WorkspacesProps) {
  const { may } = useSession();
  const key = ['mcp', 'workspaces', id];
  const path = { mcpIntegrationId: id };
  const query = useQuery({
    queryKey: key,
    enabled: workspace === null,
    queryFn: async () => {
      const [access, all] = await Promise.all([
        versioned(api.GET('/mcp-integrations/{mcpIntegrationId}/workspaces', { params: { path } })),
        dataOf(api.GET('/workspaces', { params: { query: { page_size: 100 } } })),
      ]);
      return { access, all: all.data };
    },
  });
  const headers = headersOf(query.data?.access.version);
  const save = useSave(key, (body: Body<'mcp_integration_workspaces.update'>) =>
    dataOf(api.PUT('/mcp-integrations/{mcpIntegrationId}/workspaces', { params: { path }, body, headers })),
  );
  if (workspace !== null) return <p className="text-soft">{texts.workspaces.own}</p>;
  const disabled = !may('organisation_mcp_integrations.update');
  return (
    <Loaded query={query}>
      {({ access: { record }, all }) => {
        const every = record.global_workspace_access.enabled;
        return (
          <div className="grid gap-4">
            <p className="text-soft">{texts.workspaces.intro}</p>
            <Switch
              label={texts.workspaces.every}
              disabled={disabled}
              checked={every}
              onSwitch={(enabled) => save.mutateAsync({ global_workspace_access: { enabled } })}
            />
            <ul className="border-line divide-line divide-y rounded-md border">
              {all.map(({ id: one, name }) => (
                <li key={one} className="px-3 py-2">
                  <Switch
                    label={name}
                    aria-label={texts.workspaces.on(name)}
                    disabled={disabled}
                    checked={record.workspaces.find((found) => found.id === one)?.enabled ?? every}
                    onSwitch={(enabled) => save.mutateAsync({ workspaces: [{ id: one, enabled }] })}
                  />
                </li>
              ))}
            </ul>
          </div>
        );
      }}
    </Loaded>
  );
}

/** The users of the workspace who may use a server. */
export function UserAccess({ id }: { readonly id: string }) {
  const { may } = useSession();
  const key = ['mcp', 'access', id];
  const path = { mcpServerId: id };
  const query = useQuery({
    queryKey: key,
    queryFn: () =>
      versioned(
        api.GET('/mcp-servers/{mcpServerId}/user-access', { params: { path, query: { page_size: 500 } } }),
      ),
  });
  const headers = headersOf(query.data?.version);
  const save = useSave(key, (body: Body<'mcp_server_user_access.update'>) =>
    dataOf(api.PUT('/mcp-servers/{mcpServerId}/user-access', { params: { path }, body, headers })),
  );
  const disabled = !may('mcp_servers.update');
  return (
    <Loaded query={query}>
      {({ record: { data, default_user_access: byDefault } }) => (
        <div className="grid gap-4">
          <p className="text-soft">{texts.access.intro}</p>
          <Field label={texts.access.byDefault} className="max-w-sm">
            {(control) => (
              <Select
                {...control}
                disabled={disabled || save.isPending}
                value={byDefault}
                options={Object.entries(texts.access.defaults)}
                onChange={({ target }) =>
                  save.mutate({ default_user_access: target.value === 'deny' ? 'deny' : 'allow' })
                }
              />
            )}
          </Field>
          {data.length === 0 && <Empty title={texts.access.none} />}
          <ul className="divide-line divide-y">
            {data.map((user) => {
              const name = `${user.first_name} ${user.last_name}`.trim() || user.user_id;
              return (
                <li key={user.user_id} className="flex items-center gap-3 py-2">
                  <Switch
                    label={name}
                    aria-label={texts.access.may(name)}
                    className="grow"
                    disabled={disabled}
                    checked={user.enabled}
                    onSwitch={(enabled) =>
                      save.mutateAsync({ user_access: [{ user_id: user.user_id, enabled }] })
                    }
                  />
                  {user.has_override && <Badge>{texts.access.own}</Badge>}
                  {user.connection_status === 'connected' && (
                    <Badge tone="good">{texts.access.connected}</Badge>
                  )}
                </li>
              );
            })}
          </ul>
        </div>
      )}
    </Loaded>
  );
}

type Connection =
  operations['mcp_server_connections.list']['responses'][200]['content']['application/json']['data'][number];

/** The accounts that users have connected at a server; each can be ended. */
export function Connections({ id }: { readonly id: string }) {
  const { may } = useSession();
  const queries = useQueryClient();
  const say = useToast();
  const [asked, setAsked] = useState<Connection>();
  const key = ['mcp', 'connections', id];
  const path = { mcpServerId: id };
  const query = useQuery({
    queryKey: key,
    queryFn: () => dataOf(api.GET('/mcp-servers/{mcpServerId}/connections', { params: { path } })),
  });
  const columns: Columns<Connection> = [
    {
      header: texts.connections.column.user,
      cell: ({ row }) => <span className="font-mono text-xs">{row.original.user_id}</span>,
    },
    {
      header: texts.connections.column.status,
      meta: { isState: true },
      cell: ({ row }) => (
        <Badge tone={row.original.connected ? 'good' : 'warn'}>
          {row.original.connected ? texts.connections.valid : texts.connections.ended}
        </Badge>
      ),
    },
    { header: texts.connections.column.since, cell: ({ row }) => <Time iso={row.original.created_at} ago /> },
    {
      header: texts.connections.column.renewed,
      cell: ({ row }) => <Time iso={row.original.last_updated_at} ago />,
    },
    {
      id: 'end',
      header: '',
      meta: { isActions: true },
      cell: ({ row }) =>
        may('mcp_servers.update') && (
          <Button kind="danger" onClick={() => setAsked(row.original)}>
            {texts.connections.end}
          </Button>
        ),
    },
  ];
  return (
    <div className="grid gap-4">
      <p className="text-soft">{texts.connections.intro}</p>
      <Loaded query={query}>
        {({ data }) =>
          data.length === 0 ? (
            <Empty title={texts.connections.none} />
          ) : (
            <DataTable
              label={texts.tabs.connections}
              columns={columns}
              rows={data}
              rowId={({ user_id: user }) => user}
            />
          )
        }
      </Loaded>
      <Confirm
        open={asked !== undefined}
        onOpenChange={(open) => !open && setAsked(undefined)}
        title={texts.connections.endTitle}
        text={texts.connections.endText}
        action={texts.connections.end}
        onConfirm={async () => {
          // Without a user all connections would end.
          if (asked === undefined) return;
          const query = { user_id: asked.user_id };
          await dataOf(api.DELETE('/mcp-servers/{mcpServerId}/connections', { params: { path, query } }));
          await queries.invalidateQueries({ queryKey: key });
          say({ text: texts.connections.done, tone: 'good' });
        }}
      />
    </div>
  );
}
