import { useMemo, useState } from 'react';
import { Link, useNavigate } from '@tanstack/react-router';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { Plus } from 'lucide-react';
import { api, dataOf } from '@/api/client';
import type { operations } from '@/api/schema.gen';
import { useSession } from '@/api/session';
import { pageOf, textOf, useAddress } from '@/lib/address';
import { count } from '@/lib/format';
import { useWorkspaceNames } from '@/lib/names';
import { shapes, type Shape } from '@/pages/configs/shapes';
import { configs as texts } from '@/texts/configs';
import { resource } from '@/texts/resource';
import { common } from '@/texts/common';
import { Button } from '@/ui/button';
import { type Columns, DataTable } from '@/ui/data-table';
import { Dialog } from '@/ui/dialog';
import { Checkbox, Input } from '@/ui/fields';
import { Card, Page } from '@/ui/page';
import { Pager } from '@/ui/pager';
import { Badge, Time } from '@/ui/small';
import { Empty, Loaded } from '@/ui/states';

type Config = operations['configs.list']['responses'][200]['content']['application/json']['data'][number];

const pageSize = 50;

export default function Configs() {
  const { search, change } = useAddress();
  const { may } = useSession();
  const navigate = useNavigate();
  const words = textOf(search['search']);
  const archived = search['archived'] === true;
  const page = pageOf(textOf(search['page']));
  const workspaces = useWorkspaceNames();
  const [choosing, setChoosing] = useState(false);
  const query = useQuery({
    queryKey: ['configs', words, archived, page],
    queryFn: ({ signal }) =>
      dataOf(
        api.GET('/configs', {
          params: {
            query: {
              current_page: page,
              page_size: pageSize,
              status: archived ? 'archived' : 'active',
              ...(words !== undefined && { search: words }),
            },
          },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
  });
  const columns = useMemo((): Columns<Config> => {
    const t = texts.list;
    return [
      {
        id: 'name',
        header: t.name,
        cell: ({ row: { original } }) => (
          <span className="inline-flex min-w-0 items-center gap-2">
            <span className="truncate font-medium">{original.name}</span>
            {original.is_default === 1 && <Badge tone="accent">{t.default}</Badge>}
          </span>
        ),
      },
      {
        id: 'slug',
        header: t.slug,
        cell: ({ row: { original } }) => <code className="font-mono text-xs">{original.slug}</code>,
      },
      {
        id: 'workspace',
        header: t.workspace,
        cell: ({ row: { original } }) =>
          workspaces.get(original.workspace_id ?? '') ?? original.workspace_id ?? '–',
      },
      {
        id: 'by',
        header: t.by,
        cell: ({ row: { original } }) => (original.managed_by === 'api' ? t.api : t.file),
      },
      {
        id: 'changed',
        header: t.changed,
        cell: ({ row: { original } }) => <Time iso={original.last_updated_at} ago />,
      },
    ];
  }, [workspaces]);
  const create = may('configs.create') && (
    <Button kind="primary" onClick={() => setChoosing(true)}>
      <Plus className="size-4" />
      {texts.create.button}
    </Button>
  );
  return (
    <Page title={texts.title} intro={texts.intro} actions={create}>
      <div className="flex flex-wrap items-center gap-3">
        <Input
          data-search
          type="search"
          className="w-72"
          aria-label={texts.list.search}
          placeholder={texts.list.search}
          defaultValue={words ?? ''}
          onChange={(event) =>
            change({ search: event.target.value || undefined, page: undefined }, { replace: true })
          }
        />
        <Checkbox
          label={texts.list.archived}
          checked={archived}
          onChange={(event) =>
            change({ archived: event.target.checked ? true : undefined, page: undefined }, { replace: true })
          }
        />
      </div>
      <Card>
        <Loaded query={query}>
          {({ data, total }) =>
            data.length === 0 ? (
              words !== undefined || archived || page > 0 ? (
                <Empty title={texts.list.none} />
              ) : (
                <Empty title={texts.list.empty} text={texts.list.emptyText} />
              )
            ) : (
              <DataTable
                label={texts.list.label}
                columns={columns}
                rows={data}
                rowId={({ id }) => id}
                onOpen={({ id }) => void navigate({ to: `/configs/${id}` })}
                footer={
                  <Pager
                    page={page}
                    isLast={(page + 1) * pageSize >= total}
                    single={total <= pageSize && page === 0}
                    onPage={(next) => change({ page: next === 0 ? undefined : next + 1 })}
                  >
                    {resource.shown(
                      count(page * pageSize + 1),
                      count(page * pageSize + data.length),
                      count(total),
                    )}
                  </Pager>
                }
              />
            )
          }
        </Loaded>
      </Card>
      <Dialog
        open={choosing}
        onOpenChange={setChoosing}
        title={texts.create.title}
        description={texts.create.text}
      >
        <ul className="grid gap-2 sm:grid-cols-2">
          {(Object.keys(shapes) as Shape[]).map((shape) => (
            <li key={shape}>
              <Link
                to="/configs/$id"
                params={{ id: 'new' }}
                search={() => ({ shape })}
                className="border-line hover:bg-raised grid gap-0.5 rounded-md border p-3"
              >
                <span className="font-medium">{texts.shapes[shape][0]}</span>
                <span className="text-soft text-xs">{texts.shapes[shape][1]}</span>
              </Link>
            </li>
          ))}
        </ul>
        <div className="flex justify-end">
          <Button onClick={() => setChoosing(false)}>{common.action.cancel}</Button>
        </div>
      </Dialog>
    </Page>
  );
}
