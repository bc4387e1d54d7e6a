import { useEffect, useMemo, useRef, useState, type FormEvent } from 'react';
import { Link, useNavigate } from '@tanstack/react-router';
import { Popover } from 'radix-ui';
import { Bookmark, Download, Trash2 } from 'lucide-react';
import { useSession } from '@/api/session';
import { textOf, useAddress, without, type Search } from '@/lib/address';
import { classes } from '@/lib/classes';
import { filtersOf, filterTexts } from '@/lib/filters';
import { count } from '@/lib/format';
import { useKeyNames } from '@/lib/names';
import { usePreferences } from '@/lib/preferences';
import { rangeOf } from '@/lib/time-range';
import { useViews } from '@/lib/views';
import { logColumns } from '@/pages/logs/columns';
import { merged, useLogs, useTail, type LogEntry } from '@/pages/logs/use-logs';
import { common } from '@/texts/common';
import { logs as texts } from '@/texts/logs';
import { Button, IconButton } from '@/ui/button';
import { LongTable } from '@/ui/long-table';
import { Input, Select } from '@/ui/fields';
import { FilterBar } from '@/ui/filter-bar';
import { Card, Page } from '@/ui/page';
import { RangePicker } from '@/ui/range-picker';
import { Empty, Loaded } from '@/ui/states';
import { Switch } from '@/ui/switch';
import { useToast } from '@/ui/toast';

const nothing: readonly LogEntry[] = [];

export default function Logs() {
  const { search, change } = useAddress();
  const navigate = useNavigate();
  const { may } = useSession();
  const { words, setWords } = usePreferences();
  const range = rangeOf(search);
  const filters = useMemo(() => filtersOf(search), [search]);
  const order = search['order'] === 'oldest' ? 'oldest' : 'newest';
  const live = search['live'] === true && order === 'newest';
  const view = { range, filters, order } as const;
  const { query, refresh } = useLogs(view);
  const tail = useTail(live, view, refresh);
  const pages = query.data?.pages;
  const listed = useMemo(() => pages?.flatMap(({ data }) => data) ?? nothing, [pages]);
  const rows = useMemo(() => merged(tail.entries, listed), [tail.entries, listed]);
  const keyIds = useMemo(() => [...new Set(rows.map(({ metrics }) => metrics.api_key_id))], [rows]);
  const keys = useKeyNames(keyIds);
  const columns = useMemo(() => logColumns(keys, words), [keys, words]);
  const { hasNextPage, isFetchingNextPage, isPlaceholderData, fetchNextPage } = query;
  const isFiltered = Object.keys(filters).length > 0;
  return (
    <Page
      full
      title={texts.title}
      actions={
        <>
          <Switch label={texts.columns.words} checked={words} onChange={setWords} />
          <Switch
            label={texts.live.name}
            checked={live}
            onChange={(on) => change({ live: on ? true : undefined, order: undefined }, { replace: true })}
          />
          <Select
            aria-label={texts.order.label}
            className="w-auto"
            value={order}
            options={[
              ['newest', texts.order.newest],
              ['oldest', texts.order.oldest],
            ]}
            onChange={(event) =>
              change({ order: event.target.value === 'oldest' ? 'oldest' : undefined, live: undefined })
            }
          />
          <RangePicker range={range} />
          <Views />
          {may('logs.export') && (
            <Button onClick={() => void navigate({ to: '/exports', search: exportSearch(search) })}>
              <Download className="size-4" aria-hidden />
              {texts.export}
            </Button>
          )}
        </>
      }
    >
      <div className="flex flex-wrap items-center gap-2">
        <SearchBox />
        <FilterBar range={range} />
      </div>
      {live && (
        <p role="status" className={classes('text-sm', tail.fault === undefined ? 'text-soft' : 'text-warn')}>
          {tail.fault ?? (tail.unseen > 0 ? texts.live.busy(count(tail.unseen)) : texts.live.on)}
        </p>
      )}
      <Card className={classes('flex min-h-0 grow flex-col', isPlaceholderData && 'opacity-60')}>
        <Loaded query={query} lines={12}>
          {() =>
            rows.length === 0 && !isPlaceholderData ? (
              <Nothing isFiltered={isFiltered} />
            ) : (
              <LongTable
                label={texts.table}
                columns={columns}
                rows={rows}
                rowId={({ id }) => id}
                onOpen={({ id }) => void navigate({ to: '/logs/$id', params: { id } })}
                onEnd={() => {
                  if (hasNextPage && !isFetchingNextPage && !isPlaceholderData) void fetchNextPage();
                }}
                footer={
                  <p role="status" className="text-soft p-2 text-center text-xs">
                    {isFetchingNextPage ? texts.more : hasNextPage ? '' : texts.end(count(rows.length))}
                  </p>
                }
              />
            )
          }
        </Loaded>
      </Card>
    </Page>
  );
}

/** The filters and the time of a view, without the order and the switch. */
function exportSearch(search: Search): Search {
  return without({ ...search, order: undefined, live: undefined, new: true });
}

const typingMs = 250;

function SearchBox() {
  const { search, change } = useAddress();
  const said = textOf(search['search']) ?? '';
  const [typed, setTyped] = useState(said);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  // The address may change by itself: back, a view, a link.
  useEffect(() => setTyped(said), [said]);
  useEffect(() => () => clearTimeout(timer.current), []);
  return (
    <Input
      data-search
      type="search"
      className="w-80"
      maxLength={256}
      aria-label={texts.search}
      placeholder={texts.search}
      value={typed}
      onChange={(event) => {
        const { value } = event.target;
        setTyped(value);
        clearTimeout(timer.current);
        timer.current = setTimeout(() => change({ search: value }, { replace: true }), typingMs);
      }}
      onKeyDown={(event) => {
        if (event.key === 'Escape') event.currentTarget.blur();
      }}
    />
  );
}

function Nothing({ isFiltered }: { readonly isFiltered: boolean }) {
  const { search, change } = useAddress();
  const { may } = useSession();
  const navigate = useNavigate();
  const { empty } = texts;
  const clear = (): void =>
    change({
      search: undefined,
      ...Object.fromEntries([...filterTexts(search)].map(([name]) => [name, undefined])),
    });
  return (
    <Empty
      title={empty.title}
      text={isFiltered ? empty.filtered : empty.any}
      action={
        <span className="flex gap-2">
          {isFiltered && <Button onClick={clear}>{empty.clear}</Button>}
          <Button onClick={() => change({ range: '30d', from: undefined, to: undefined })}>
            {empty.longer}
          </Button>
          {!isFiltered && may('completions.write') && (
            <Button kind="primary" onClick={() => void navigate({ to: '/playground' })}>
              {empty.playground}
            </Button>
          )}
        </span>
      }
    />
  );
}

const shipped: readonly { readonly name: string; readonly search: Search }[] = [
  { name: texts.views.failed, search: { success: 'false' } },
  { name: texts.views.slow, search: { response_time_min: 5000 } },
  { name: texts.views.dear, search: { cost_min: 1 } },
];

function Views() {
  const { search } = useAddress();
  const { views, save, remove } = useViews('logs');
  const say = useToast();
  const [open, setOpen] = useState(false);
  const [name, setName] = useState('');
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (name.trim() === '') return;
    save({ name: name.trim().slice(0, 60), search });
    setName('');
  };
  const item = 'hover:bg-raised block grow truncate rounded px-2 py-1.5';
  return (
    <Popover.Root open={open} onOpenChange={setOpen}>
      <Popover.Trigger asChild>
        <Button>
          <Bookmark className="size-4" aria-hidden />
          {texts.views.name}
        </Button>
      </Popover.Trigger>
      <Popover.Portal>
        <Popover.Content
          align="end"
          sideOffset={4}
          aria-label={texts.views.name}
          className="border-line bg-panel z-50 grid w-80 gap-1 rounded-lg border p-2 shadow-lg"
        >
          <ul>
            {[...views, ...shipped].map((view, index) => (
              <li key={view.name} className="flex items-center">
                <Link to="/logs" search={view.search} className={item} onClick={() => setOpen(false)}>
                  {view.name}
                </Link>
                {index < views.length && (
                  <IconButton
                    label={texts.views.remove(view.name)}
                    onClick={() => {
                      remove(view.name);
                      say({ text: texts.views.removed(view.name), undo: () => save(view) });
                    }}
                  >
                    <Trash2 className="size-4" />
                  </IconButton>
                )}
              </li>
            ))}
          </ul>
          <form className="border-line grid gap-2 border-t pt-2" onSubmit={submit}>
            <p className="text-soft text-xs">{texts.views.none}</p>
            <div className="flex gap-2">
              <Input
                aria-label={texts.views.label}
                placeholder={texts.views.label}
                maxLength={60}
                value={name}
                onChange={(event) => setName(event.target.value)}
              />
              <Button type="submit">{common.action.save}</Button>
            </div>
          </form>
        </Popover.Content>
      </Popover.Portal>
    </Popover.Root>
  );
}
