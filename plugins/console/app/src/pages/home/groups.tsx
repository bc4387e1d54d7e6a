import { useMemo } from 'react';
import { useNavigate } from '@tanstack/react-router';
import { textOf, useAddress, without, type Search } from '@/lib/address';
import { classes } from '@/lib/classes';
import { listText, type Filters } from '@/lib/filters';
import { count, duration, money, percent } from '@/lib/format';
import { useKeyNames, useWorkspaceNames } from '@/lib/names';
import type { Range } from '@/lib/time-range';
import { groupings, mostGroups, useGroups, type Group, type Grouping } from '@/pages/home/use-home';
import { home } from '@/texts/home';
import { DataTable, type Columns, type Sort } from '@/ui/data-table';
import { Card } from '@/ui/page';
import { Time } from '@/ui/small';
import { Empty, Loaded } from '@/ui/states';

const texts = home.groups;

/** The filter of the log for a value. */
const params: Readonly<Record<Grouping, string>> = {
  model: 'ai_model',
  provider: 'provider',
  workspace: 'workspace_id',
  api_key: 'api_key_ids',
  user: 'user',
};

function columnsOf(by: Grouping, nameOf: (value: string) => string): Columns<Group> {
  const { columns } = texts;
  const right = { align: 'right' } as const;
  const ms = (value: number | null): string => (value === null ? '–' : duration(value));
  return [
    {
      ...{
        id: 'value',
        header: texts.names[by],
        accessorFn: ({ value }: Group) => nameOf(value),
        sortDescFirst: false,
      },
      cell: ({ row: { original } }) => <span title={original.value}>{nameOf(original.value)}</span>,
    },
    {
      ...{ id: 'requests', header: columns.requests, accessorKey: 'requests', meta: right },
      cell: ({ row }) => count(row.original.requests),
    },
    {
      ...{ id: 'cost', header: columns.cost, accessorKey: 'cost', meta: right },
      cell: ({ row }) => money(row.original.cost),
    },
    {
      ...{ id: 'tokens', header: columns.tokens, accessorKey: 'tokens', meta: right },
      cell: ({ row }) => count(row.original.tokens),
    },
    {
      ...{
        id: 'average',
        header: columns.average,
        accessorFn: ({ average }: Group) => average ?? 0,
        meta: right,
      },
      cell: ({ row }) => ms(row.original.average),
    },
    {
      ...{ id: 'p95', header: columns.p95, accessorFn: ({ p95 }: Group) => p95 ?? 0, meta: right },
      cell: ({ row }) => ms(row.original.p95),
    },
    {
      ...{ id: 'errors', header: columns.errors, accessorKey: 'errors', meta: right },
      cell: ({ row: { original } }) => (
        <span className={original.errors > 0 ? 'text-bad' : 'text-soft'}>{count(original.errors)}</span>
      ),
    },
    {
      ...{ id: 'success', header: columns.rate, accessorKey: 'success', meta: right },
      cell: ({ row }) => percent(row.original.success),
    },
    {
      ...{ id: 'hits', header: columns.hits, accessorKey: 'hits', meta: right },
      cell: ({ row }) => percent(row.original.hits),
    },
    {
      ...{ id: 'seen', header: columns.seen, accessorKey: 'seen' },
      cell: ({ row }) => <Time iso={row.original.seen} ago />,
    },
  ];
}

/** What the gateway orders by while the rows stand in the order of a column; it has no order of names. */
function orderName(id: string): string {
  const { columns } = texts;
  if (id === 'success') return columns.rate;
  return Object.hasOwn(columns, id) ? columns[id as keyof typeof columns] : columns.requests;
}

const sortable = new Set(columnsOf('model', String).map(({ id }) => id));

interface GroupsProps {
  readonly range: Range;
  readonly filters: Filters;
  readonly live: boolean;
  /** Parameters of the log for the same time and filters. */
  readonly base: Search;
}

/** Requests by what they share, as a table whose rows lead to them. */
export function Groups({ range, filters, live, base }: GroupsProps) {
  const { search, change } = useAddress();
  const navigate = useNavigate();
  const sort = useMemo((): Sort => {
    const said = textOf(search['sort']) ?? '';
    const id = said.replace(/^-/, '');
    return sortable.has(id) ? { id, desc: said.startsWith('-') } : { id: 'cost', desc: true };
  }, [search]);
  const by = groupings.find((one) => one === textOf(search['by'])) ?? 'model';
  const query = useGroups(by, range, filters, live, sort);
  const keys = useKeyNames(by === 'api_key' ? (query.data?.groups.map(({ value }) => value) ?? []) : []);
  const workspaces = useWorkspaceNames();
  const columns = useMemo(() => {
    const names = by === 'api_key' ? keys : by === 'workspace' ? workspaces : undefined;
    return columnsOf(by, (value) => names?.get(value) ?? (value === '' ? texts.none : value));
  }, [by, keys, workspaces]);
  const open = ({ value }: Group): void => {
    const own = by === 'workspace' ? value : listText([value]);
    void navigate({ to: '/logs', search: without({ ...base, [params[by]]: own }) });
  };
  return (
    <Card>
      <div
        role="group"
        aria-label={texts.label}
        className="border-line flex gap-1 overflow-x-auto border-b px-3 py-2"
      >
        {groupings.map((one) => (
          <button
            key={one}
            type="button"
            aria-pressed={one === by}
            onClick={() => change({ by: one === 'model' ? undefined : one }, { replace: true })}
            className={classes(
              'rounded-md px-3 py-1 font-medium',
              one === by ? 'bg-accent-wash text-accent' : 'text-soft hover:bg-raised',
            )}
          >
            {texts.by[one]}
          </button>
        ))}
      </div>
      <div className={classes(query.isPlaceholderData && 'opacity-60')}>
        <Loaded query={query} lines={6}>
          {({ groups, total }) =>
            groups.length === 0 ? (
              <Empty title={texts.empty} />
            ) : (
              <DataTable
                label={texts.by[by]}
                columns={columns}
                rows={groups}
                rowId={({ value }) => value}
                onOpen={open}
                sort={sort}
                onSort={({ id, desc }) => change({ sort: `${desc ? '-' : ''}${id}` }, { replace: true })}
                footer={
                  total > groups.length && (
                    <p className="text-soft p-2 text-center text-xs">
                      {texts.some(count(mostGroups), count(total), orderName(sort.id))}
                    </p>
                  )
                }
              />
            )
          }
        </Loaded>
      </div>
    </Card>
  );
}
