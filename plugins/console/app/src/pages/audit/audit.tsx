import { useEffect, useMemo, useState } from 'react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { api, dataOf } from '@/api/client';
import type { operations } from '@/api/schema.gen';
import { pageOf, useAddress, useAddressTexts, without } from '@/lib/address';
import { count, zoneName } from '@/lib/format';
import { useUserNames } from '@/lib/names';
import { usePreferences } from '@/lib/preferences';
import { fromInput, toInput } from '@/lib/zones';
import { Chain } from '@/pages/audit/chain';
import { closed, EntrySheet, Outcome } from '@/pages/audit/entry';
import { type Entry, type Names, useNames } from '@/pages/audit/names';
import { audit as texts } from '@/texts/audit';
import { Button } from '@/ui/button';
import { type Columns, DataTable } from '@/ui/data-table';
import { Dialog } from '@/ui/dialog';
import { Field, Input, Select } from '@/ui/fields';
import { Card, Page } from '@/ui/page';
import { Pager } from '@/ui/pager';
import { Time } from '@/ui/small';
import { Empty, Loaded, Missing } from '@/ui/states';

type Query = NonNullable<operations['audit_logs.list']['parameters']['query']>;

const noEntries: readonly Entry[] = [];
const pageSize = 50;
/** As many as the API lists at once: those of one millisecond. */
const mostAtOnce = 100;
/** Kinds of records, as routes that change something name them. */
const resources = [
  ...['api_keys', 'cache', 'collections', 'config_file', 'configs', 'deployments', 'guardrails'],
  ...['integration_models', 'integration_workspaces', 'integrations', 'invites', 'labels', 'log_exports'],
  ...['mcp_integration_capabilities', 'mcp_integration_workspaces', 'mcp_integrations'],
  ...['mcp_server_capabilities', 'mcp_server_connections', 'mcp_server_user_access', 'mcp_servers'],
  ...['mcp_virtual_servers', 'organisation_defaults', 'organisation_settings', 'prompt_partials', 'prompts'],
  ...['providers', 'rate_limit_policies', 'requests', 'scim_workspaces', 'secret_references', 'tokens'],
  ...['usage_limit_policies', 'users', 'virtual_keys', 'workspace_exclusions', 'workspace_settings'],
  ...['workspace_users', 'workspaces'],
];
const actions = [
  'accept',
  'create',
  'delete',
  'export',
  'publish',
  'reset',
  'rotate',
  'send',
  'update',
  'verify',
];

const columnsOf = (names: Names): Columns<Entry> => [
  { header: texts.column.at, cell: ({ row }) => <Time iso={row.original.timestamp} /> },
  {
    header: texts.column.actor,
    cell: ({ row: { original } }) => (
      <span title={original.user_id}>
        {names.ofActor(original) || '–'}{' '}
        <span className="text-soft text-xs">{texts.actors[original.user_type]}</span>
      </span>
    ),
  },
  {
    header: texts.column.action,
    cell: ({ row }) => <span className="font-medium">{row.original.action}</span>,
  },
  {
    header: texts.column.resource,
    cell: ({ row: { original } }) => {
      const { resource_type: kind, resource_id: id } = original;
      const name = names.ofRecord(original);
      return (
        <span className="block min-w-0">
          <span title={name}>
            <span className={name === undefined ? '' : 'text-soft'}>{kind.replaceAll('_', ' ')}</span>{' '}
            {name !== undefined && <span className="font-medium">{name}</span>}
          </span>
          {id !== '' && (
            <span className="text-soft block truncate font-mono text-xs" title={id}>
              {id}
            </span>
          )}
        </span>
      );
    },
  },
  {
    header: texts.column.result,
    meta: { isState: true },
    cell: ({ row }) => <Outcome entry={row.original} />,
  },
  { header: texts.column.address, cell: ({ row }) => row.original.client_ip },
  {
    header: texts.column.number,
    cell: ({ row }) => <span className="tabular-nums">{row.original.number || '–'}</span>,
  },
];

const filters = ['resource', 'id', 'action', 'actor', 'from', 'to', 'kind', 'address'] as const;
const noFilters = Object.fromEntries([...filters, 'page'].map((name) => [name, undefined]));

function queryOf(address: Readonly<Record<string, string | undefined>>, page: number): Query {
  const { resource, id, action, actor, from, to, kind, address: ip } = address;
  return {
    ...{ current_page: page, page_size: pageSize },
    ...(resource !== undefined && { resource_type: resource }),
    ...(id !== undefined && { resource_id: id }),
    ...(action !== undefined && { action }),
    ...(actor !== undefined && { user_id: actor }),
    ...(from !== undefined && { start_time: from }),
    ...(to !== undefined && { end_time: to }),
    ...(ip !== undefined && { client_ip: ip }),
    ...((kind === 'user' || kind === 'api_key' || kind === 'system') && { user_type: kind }),
  };
}

/** The list of changes with their authors. The filters stand in the address, so that each view is a link. */
export default function Audit() {
  const [address, change] = useAddressTexts();
  const { search } = useAddress();
  const page = pageOf(address['page']);
  const asked = queryOf(address, page);
  const query = useQuery({
    queryKey: ['audit', asked],
    queryFn: () => dataOf(api.GET('/audit-logs', { params: { query: asked } })),
    placeholderData: keepPreviousData,
  });
  const { open, at } = address;
  const listed = query.data?.records.find(({ id }) => id === open);
  // A link outlives the page of the list on which its entry stood.
  const far = useQuery({
    queryKey: ['audit', 'entry', open, at],
    queryFn: async () => {
      const one = { start_time: at ?? '', end_time: at ?? '', page_size: mostAtOnce };
      const { records } = await dataOf(api.GET('/audit-logs', { params: { query: one } }));
      return records.find(({ id }) => id === open) ?? null;
    },
    enabled: open !== undefined && at !== undefined && query.isSuccess && listed === undefined,
  });
  const opened = listed ?? (open === undefined ? undefined : (far.data ?? undefined));
  // Without its moment it is looked for in the list alone.
  const isGone =
    open !== undefined && opened === undefined && query.isSuccess && (at === undefined || far.isSuccess);
  const actors = useActors(query.data?.records);
  const records = query.data?.records ?? noEntries;
  const shown = useMemo(
    () => (opened === undefined || records.includes(opened) ? records : [...records, opened]),
    [opened, records],
  );
  const names = useNames(shown);
  const columns = useMemo(() => columnsOf(names), [names]);
  const filtered = filters.some((name) => address[name] !== undefined);
  const clear = <Button onClick={() => change(noFilters)}>{texts.clear}</Button>;
  return (
    <Page title={texts.title} intro={texts.intro} actions={<Chain />}>
      <Card>
        <Filters clear={filtered ? clear : null} actors={actors} />
        <Loaded query={query} lines={10}>
          {({ total }) =>
            records.length === 0 ? (
              filtered ? (
                <Empty title={texts.empty} text={texts.emptyText} action={clear} />
              ) : (
                <Empty title={texts.nothing} text={texts.nothingText} />
              )
            ) : (
              <DataTable
                label={texts.title}
                columns={columns}
                rows={records}
                rowId={({ id }) => id}
                onOpen={({ id, timestamp }) => change({ open: id, at: timestamp })}
                footer={
                  <Pager
                    page={page}
                    isLast={(page + 1) * pageSize >= total}
                    onPage={(next) => change({ page: String(next + 1) })}
                  >
                    {texts.shown(
                      count(page * pageSize + 1),
                      count(page * pageSize + records.length),
                      count(total),
                    )}
                  </Pager>
                }
              />
            )
          }
        </Loaded>
      </Card>
      {isGone && (
        <Dialog open place="side" title={texts.details.title} onOpenChange={() => change(closed)}>
          <Missing
            {...{ noun: texts.details.noun, id: open, why: texts.details.missing }}
            list={{ to: '.', search: without({ ...search, ...closed }) }}
          />
        </Dialog>
      )}
      {opened !== undefined && (
        <EntrySheet key={opened.id} entry={opened} names={names} noFilters={noFilters} />
      )}
    </Page>
  );
}

/** A kind of records; of several, which stand with commas between them, the first has the others as parts. */
function kindText(kinds: string): string {
  const [first = '', ...parts] = kinds.split(',');
  const text = first.replaceAll('_', ' ');
  return parts.length === 0 ? text : texts.withParts(text);
}

/**
 * Actors to choose, by their ids, in the order of their names: people, and those of all entries that were shown so far,
 * such as keys. One that is chosen leaves the others to choose.
 */
function useActors(records: readonly Entry[] | undefined): ReadonlyMap<string, string> {
  const people = useUserNames();
  const [seen, setSeen] = useState<ReadonlyMap<string, string>>(new Map());
  useEffect(() => {
    if (records === undefined) return;
    const own = records.map((one) => [one.user_id, one.user_name || one.user_id] as const);
    setSeen((before) => new Map([...before, ...own.filter(([id]) => id !== '')]));
  }, [records]);
  return useMemo(() => {
    const all = new Map([...people, ...seen]);
    all.delete('');
    return new Map([...all].sort(([, one], [, other]) => one.localeCompare(other)));
  }, [people, seen]);
}

interface FiltersProps {
  readonly clear: React.ReactNode;
  /** Names of actors by their ids, to choose one. */
  readonly actors: ReadonlyMap<string, string>;
}

function Filters({ clear, actors }: FiltersProps) {
  const [address, change] = useAddressTexts();
  const { zone } = usePreferences();
  const words = texts.filter;
  const set = (name: string, value: string, replace = false): void =>
    change({ [name]: value || undefined, page: undefined }, { replace });
  const list = (name: 'resource' | 'action', known: readonly string[]) => {
    const value = address[name] ?? '';
    const all = value === '' || known.includes(value) ? known : [...known, value];
    return (
      <Field label={words[name]}>
        {(control) => (
          <Select
            {...control}
            className="w-44"
            value={value}
            options={[['', words.any], ...all.map((one) => [one, kindText(one)] as const)]}
            onChange={(event) => set(name, event.target.value)}
          />
        )}
      </Field>
    );
  };
  const text = (name: 'id' | 'address') => (
    <Field label={words[name]}>
      {(control) => (
        <Input
          {...control}
          className="w-52"
          value={address[name] ?? ''}
          onChange={(event) => set(name, event.target.value.trim(), true)}
        />
      )}
    </Field>
  );
  const actor = (
    <Field label={words.actor}>
      {(control) => {
        const value = address['actor'] ?? '';
        const all = value === '' || actors.has(value) ? actors : new Map([...actors, [value, value]]);
        return (
          <Select
            {...control}
            data-search
            className="w-52"
            value={value}
            options={[['', words.anyone], ...all]}
            onChange={(event) => set('actor', event.target.value)}
          />
        );
      }}
    </Field>
  );
  const time = (name: 'from' | 'to') => {
    const at = Date.parse(address[name] ?? '');
    return (
      <Field label={words[name](zoneName(zone))}>
        {(control) => (
          <Input
            {...control}
            type="datetime-local"
            className="w-48"
            value={Number.isNaN(at) ? '' : toInput(at, zone)}
            onChange={({ target }) => {
              const next = fromInput(target.value, zone);
              set(name, Number.isNaN(next) ? '' : new Date(next).toISOString());
            }}
          />
        )}
      </Field>
    );
  };
  return (
    <div className="border-line flex flex-wrap items-end gap-3 border-b p-3 text-xs">
      {list('resource', resources)}
      {list('action', actions)}
      {actor}
      {text('id')}
      {time('from')}
      {time('to')}
      {clear}
    </div>
  );
}
