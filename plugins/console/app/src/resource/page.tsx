import { useDeferredValue, type ReactNode } from 'react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { Plus } from 'lucide-react';
import { api, dataOf } from '@/api/client';
import { isOfOrganisation, useSession } from '@/api/session';
import { pageOf, useAddressTexts } from '@/lib/address';
import { count } from '@/lib/format';
import type { Listed, ListQuery, Resource } from '@/resource/declaration';
import { NewRecord, RecordSheet } from '@/resource/sheet';
import { resource as texts } from '@/texts/resource';
import { Button } from '@/ui/button';
import { DataTable } from '@/ui/data-table';
import { Input, Select } from '@/ui/fields';
import { Card, Page } from '@/ui/page';
import { Pager } from '@/ui/pager';
import { Empty, Loaded } from '@/ui/states';

const pageSize = 50;
const searchPage = 100;
const mostSearched = 1000;

/** Rows of a page, or all that a search found. */
interface Rows<R> extends Listed<R> {
  /** The search did not look at all. */
  readonly isCut: boolean;
}

async function rowsOf<R extends object, C, U>(
  resource: Resource<R, C, U>,
  query: ListQuery,
): Promise<Rows<R>> {
  if (query.search === '' || resource.searches === true)
    return { ...(await resource.list(query)), isCut: false };
  const all: R[] = [];
  let total = 0;
  for (let page = 0; page * searchPage < mostSearched; page += 1) {
    const found = await resource.list({ ...query, page, size: searchPage, search: '' });
    all.push(...found.data);
    total = found.total;
    if (found.data.length === 0 || all.length >= total) break;
  }
  const wanted = query.search.toLowerCase();
  const data = all.filter((record) =>
    [resource.label(record), ...(resource.words?.(record) ?? [])].some((text) =>
      text?.toLowerCase().includes(wanted),
    ),
  );
  return { total: data.length, data, isCut: all.length < total };
}

interface ResourcePageProps<R extends object, C, U> {
  readonly resource: Resource<R, C, U>;
  /** More buttons beside the one that makes a record. */
  readonly actions?: ReactNode;
  /** Stands above the list. */
  readonly children?: ReactNode;
  /** It stands within another page: without a title of its own. */
  readonly inner?: boolean;
}

/**
 * The page of one kind of record, as `Resource` declares it: a list with search, status and pages, the button that
 * makes one, and a sheet with the details of the one that `?open` names.
 */
export function ResourcePage<R extends object, C, U>(props: ResourcePageProps<R, C, U>) {
  const { resource, actions, children, inner = false } = props;
  const [address, change] = useAddressTexts();
  const { may } = useSession();
  const create = resource.create && may(...resource.create.scopes) && (
    <Button kind="primary" onClick={() => change({ new: '1' })}>
      <Plus className="size-4" />
      {texts.create(resource.noun)}
    </Button>
  );
  const body = (
    <>
      {children}
      <RecordList resource={resource} />
      {address['open'] !== undefined && <RecordSheet key={address['open']} resource={resource} />}
      {address['new'] !== undefined && create && <NewRecord resource={resource} />}
    </>
  );
  const buttons = (
    <>
      {actions}
      {create}
    </>
  );
  if (inner)
    return (
      <>
        <div className="flex flex-wrap items-center justify-between gap-2">
          {resource.intro !== undefined && <p className="text-soft max-w-prose">{resource.intro}</p>}
          <div className="ml-auto flex gap-2">{buttons}</div>
        </div>
        {body}
      </>
    );
  return (
    <Page title={resource.title} intro={resource.intro} actions={buttons}>
      {body}
    </Page>
  );
}

function RecordList<R extends object, C, U>({ resource }: Pick<ResourcePageProps<R, C, U>, 'resource'>) {
  const [address, change] = useAddressTexts();
  const search = useDeferredValue(address['search'] ?? '');
  const page = pageOf(address['page']);
  const status = address['status'] ?? resource.statuses?.[0]?.[0] ?? '';
  const workspace = address['workspace'] ?? '';
  const asked: ListQuery = { page, size: pageSize, search: search.trim(), status, workspace };
  const query = useQuery({
    queryKey: [resource.name, 'list', asked],
    queryFn: () => rowsOf(resource, asked),
    placeholderData: keepPreviousData,
  });
  const title = resource.title;
  return (
    <Card>
      <div className="border-line flex flex-wrap items-center gap-2 border-b p-2">
        <Input
          data-search
          type="search"
          className="w-72 max-w-full"
          aria-label={texts.search(title)}
          placeholder={texts.search(title)}
          value={address['search'] ?? ''}
          onChange={({ target }) =>
            change({ search: target.value || undefined, page: undefined }, { replace: true })
          }
        />
        {resource.statuses && (
          <Select
            className="w-auto"
            aria-label={texts.status}
            options={resource.statuses}
            value={status}
            onChange={({ target }) => change({ status: target.value, page: undefined })}
          />
        )}
        {resource.inWorkspace === true && <WorkspaceChoice />}
        {resource.filters}
      </div>
      <Loaded query={query} lines={8}>
        {({ data, total, isCut }) => {
          if (data.length === 0 && search !== '')
            return (
              <Empty
                title={texts.noneFound}
                text={texts.noneFoundText}
                action={
                  <Button onClick={() => change({ search: undefined, page: undefined })}>
                    {texts.clear}
                  </Button>
                }
              />
            );
          if (data.length === 0) return <Empty title={texts.none(title)} text={resource.empty} />;
          const isWhole = search !== '' && resource.searches !== true;
          const from = isWhole ? 1 : page * pageSize + 1;
          const to = from + data.length - 1;
          return (
            <DataTable
              label={title}
              columns={resource.columns}
              rows={data}
              rowId={(record) => resource.id(record)}
              onOpen={(record) => change({ open: resource.id(record) })}
              footer={
                <Pager
                  page={page}
                  isLast={to >= total}
                  onPage={(next) => change({ page: String(next + 1) })}
                  single={isWhole || total <= pageSize}
                >
                  {texts.shown(count(from), count(to), count(total))} {isCut && texts.most}
                </Pager>
              }
            />
          );
        }}
      </Loaded>
    </Card>
  );
}

/** Callers of the organisation look at one workspace, or at all: `?workspace` in the address. */
export function WorkspaceChoice() {
  const { caller, may } = useSession();
  const [{ workspace = '' }, change] = useAddressTexts();
  const isShown = caller != null && isOfOrganisation(caller) && may('workspaces.list');
  const query = useQuery({
    queryKey: ['workspaces', 'choice'],
    enabled: isShown,
    queryFn: () => dataOf(api.GET('/workspaces', { params: { query: { page_size: 100 } } })),
  });
  const data = query.data?.data ?? [];
  if (!isShown || data.length < 2) return null;
  return (
    <Select
      className="w-auto max-w-56"
      aria-label={texts.workspace}
      options={[['', texts.everyWorkspace], ...data.map(({ id, name }) => [id, name] as const)]}
      value={workspace}
      onChange={({ target }) => change({ workspace: target.value || undefined, page: undefined })}
    />
  );
}
