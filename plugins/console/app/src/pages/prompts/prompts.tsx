import { useDeferredValue } from 'react';
import { keepPreviousData, useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { Plus } from 'lucide-react';
import { api, dataOf } from '@/api/client';
import { useSession } from '@/api/session';
import { useAddressTexts } from '@/lib/address';
import { count } from '@/lib/format';
import { Collections, Labels, Partials } from '@/pages/prompts/parts';
import { WorkspaceChoice } from '@/resource/page';
import { Tabs } from '@/resource/sheet';
import { prompts as texts } from '@/texts/prompts';
import { Button } from '@/ui/button';
import { type Columns, DataTable } from '@/ui/data-table';
import { Input, Select } from '@/ui/fields';
import { Card, Page } from '@/ui/page';
import { Code, Time } from '@/ui/small';
import { Empty, Loaded } from '@/ui/states';

const pageSize = 50;

/** `/prompts`: the prompts by collection, and what they are made of. */
export default function Prompts() {
  const [{ view = 'prompts', collection, workspace }] = useAddressTexts();
  const { may } = useSession();
  const navigate = useNavigate();
  const create = may('prompts.create') && (
    <Button
      kind="primary"
      onClick={() =>
        void navigate({
          to: '/prompts/$id',
          params: { id: 'new' },
          search: { collection, workspace } as object,
        })
      }
    >
      <Plus className="size-4" />
      {texts.new}
    </Button>
  );
  return (
    <Page title={texts.title} intro={texts.intro} actions={view === 'prompts' && create}>
      <Tabs
        chosen={view}
        tabs={Object.entries(texts.views)}
        onChange={(next) =>
          void navigate({ to: '/prompts', search: (next === 'prompts' ? {} : { view: next }) as object })
        }
      />
      {view === 'partials' ? (
        <Partials />
      ) : view === 'collections' ? (
        <Collections />
      ) : view === 'labels' ? (
        <Labels />
      ) : (
        <List />
      )}
    </Page>
  );
}

interface Asked {
  readonly search: string;
  readonly collection: string;
  readonly workspace: string;
  readonly page: number;
}

function readPage({ search, collection, workspace, page }: Asked) {
  return dataOf(
    api.GET('/prompts', {
      params: {
        query: {
          ...{ current_page: page, page_size: pageSize },
          ...(search !== '' && { search }),
          ...(collection !== '' && { collection_id: collection }),
          ...(workspace !== '' && { workspace_id: workspace }),
        },
      },
    }),
  );
}
type Entry = Awaited<ReturnType<typeof readPage>>['data'][number];

function List() {
  const [address, change] = useAddressTexts();
  const { may } = useSession();
  const navigate = useNavigate();
  const asked = {
    search: useDeferredValue(address['search'] ?? '').trim(),
    collection: address['collection'] ?? '',
    workspace: address['workspace'] ?? '',
  };
  const query = useInfiniteQuery({
    queryKey: ['prompts', 'list', asked],
    initialPageParam: 0,
    queryFn: ({ pageParam }) => readPage({ ...asked, page: pageParam }),
    getNextPageParam: (last, all) => (all.length * pageSize < last.total ? all.length : undefined),
    placeholderData: keepPreviousData,
  });
  const collections = useQuery({
    queryKey: ['collections', 'choice', asked.workspace],
    enabled: may('prompts.list'),
    queryFn: () =>
      dataOf(
        api.GET('/collections', {
          params: {
            query: { page_size: 100, ...(asked.workspace !== '' && { workspace_id: asked.workspace }) },
          },
        }),
      ),
  });
  const names = new Map(collections.data?.data.map(({ id, name }) => [id, name]));
  const columns: Columns<Entry> = [
    {
      header: texts.column.name,
      cell: ({ row }) => <span className="font-medium">{row.original.name}</span>,
    },
    { header: texts.column.slug, cell: ({ row }) => <Code text={row.original.slug} /> },
    { header: texts.column.model, cell: ({ row }) => row.original.model || '–' },
    { header: texts.column.collection, cell: ({ row }) => names.get(row.original.collection_id) ?? '–' },
    { header: texts.column.changed, cell: ({ row }) => <Time iso={row.original.last_updated_at} ago /> },
  ];
  const isFiltered = asked.search !== '' || asked.collection !== '';
  return (
    <Card>
      <div className="border-line flex flex-wrap items-center gap-2 border-b p-2">
        <Input
          data-search
          type="search"
          className="w-72 max-w-full"
          aria-label={texts.search}
          placeholder={texts.search}
          value={address['search'] ?? ''}
          onChange={({ target }) => change({ search: target.value || undefined }, { replace: true })}
        />
        {collections.data !== undefined && collections.data.data.length > 0 && (
          <Select
            className="w-auto max-w-56"
            aria-label={texts.collection}
            value={asked.collection}
            options={[
              ['', texts.everyCollection],
              ...collections.data.data.map(({ id, name }) => [id, name] as const),
            ]}
            onChange={({ target }) => change({ collection: target.value || undefined })}
          />
        )}
        <WorkspaceChoice />
      </div>
      <Loaded query={query} lines={8}>
        {({ pages }) => {
          const rows = pages.flatMap(({ data }) => data);
          const total = pages[0]?.total ?? 0;
          if (rows.length === 0 && isFiltered)
            return (
              <Empty
                title={texts.noneFound}
                text={texts.noneFoundText}
                action={
                  <Button onClick={() => change({ search: undefined, collection: undefined })}>
                    {texts.clear}
                  </Button>
                }
              />
            );
          if (rows.length === 0) return <Empty text={texts.empty} />;
          return (
            <DataTable
              label={texts.title}
              columns={columns}
              rows={rows}
              rowId={({ id }) => id}
              onOpen={({ id }) => void navigate({ to: '/prompts/$id', params: { id } })}
              footer={
                <div className="text-soft flex items-center gap-3 px-3 py-2 text-xs" aria-live="polite">
                  <span className="grow">{texts.shown(count(rows.length), count(total))}</span>
                  {query.hasNextPage && (
                    <Button busy={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
                      {texts.more}
                    </Button>
                  )}
                </div>
              }
            />
          );
        }}
      </Loaded>
    </Card>
  );
}
