import { useState, type FormEvent } from 'react';
import { useQuery } from '@tanstack/react-query';
import { Command } from 'cmdk';
import { Popover } from 'radix-ui';
import { ArrowLeft, Check, ListFilter, X } from 'lucide-react';
import { api, dataOf } from '@/api/client';
import { useSession } from '@/api/session';
import { useAddress } from '@/lib/address';
import {
  filterKinds,
  filterTexts,
  listText,
  pairsOf,
  valuesOf,
  type FilterKind,
  type FilterName,
} from '@/lib/filters';
import { count, list } from '@/lib/format';
import { shortId, useKeyNames, useWorkspaceNames } from '@/lib/names';
import { usePreferences } from '@/lib/preferences';
import { spanOf, timesOf, type Range } from '@/lib/time-range';
import { filterTextsOf as texts } from '@/texts/ranges';
import { Button } from '@/ui/button';
import { Input } from '@/ui/fields';

const kindOf = new Map(filterKinds.map((kind) => [kind.name, kind]));
const itemLook =
  'flex items-center gap-2 rounded px-2 py-1.5 cursor-pointer text-sm data-[selected=true]:bg-accent-wash data-[selected=true]:text-accent';
const boxLook = 'border-line bg-panel z-50 w-72 rounded-lg border p-1 shadow-lg';

interface FilterBarProps {
  /** Values of this range are offered. */
  readonly range: Range;
}

/** The filters of the address as chips; each opens, and offers values that requests have. */
export function FilterBar({ range }: FilterBarProps) {
  const { search, change } = useAddress();
  const [open, setOpen] = useState<FilterName | 'choose'>();
  const active = [...filterTexts(search)];
  const set = (name: FilterName, text: string | undefined): void => change({ [name]: text });
  const editor = (name: FilterName) => {
    const kind = kindOf.get(name);
    if (kind === undefined) return null;
    const text = filterTexts(search).get(name);
    return (
      <Editor
        kind={kind}
        text={text}
        range={range}
        onChange={(next) => set(name, next)}
        onDone={() => setOpen(undefined)}
      />
    );
  };
  const pending = open !== undefined && open !== 'choose' && !active.some(([name]) => name === open);
  return (
    <div className="flex flex-wrap items-center gap-1.5">
      {active.map(([name, text]) => (
        <span
          key={name}
          className="bg-accent-wash text-accent inline-flex h-7 max-w-md items-center rounded-md"
        >
          <Popover.Root open={open === name} onOpenChange={(is) => setOpen(is ? name : undefined)}>
            <Popover.Trigger
              className="flex h-full min-w-0 items-center gap-1 rounded-md px-2"
              title={texts.change(titleOf(name))}
            >
              <span className="whitespace-nowrap">{titleOf(name)}:</span>
              <span className="truncate font-medium">
                <Shown kind={kindOf.get(name)} text={text} />
              </span>
            </Popover.Trigger>
            <Popover.Portal>
              <Popover.Content align="start" sideOffset={4} className={boxLook} aria-label={titleOf(name)}>
                {open === name && editor(name)}
              </Popover.Content>
            </Popover.Portal>
          </Popover.Root>
          <button
            type="button"
            aria-label={texts.remove(titleOf(name))}
            className="hover:bg-panel/50 flex h-full min-w-7 items-center justify-center rounded-md"
            onClick={() => set(name, undefined)}
          >
            <X className="size-3.5" aria-hidden />
          </button>
        </span>
      ))}
      <Popover.Root
        open={open === 'choose' || pending}
        onOpenChange={(is) => setOpen(is ? 'choose' : undefined)}
      >
        <Popover.Trigger asChild>
          <Button className="h-7 px-2">
            <ListFilter className="size-3.5" aria-hidden />
            {texts.add}
          </Button>
        </Popover.Trigger>
        <Popover.Portal>
          <Popover.Content align="start" sideOffset={4} className={boxLook} aria-label={texts.add}>
            {pending ? editor(open) : open === 'choose' && <Chooser onChoose={setOpen} />}
          </Popover.Content>
        </Popover.Portal>
      </Popover.Root>
      {active.length > 1 && (
        <Button
          kind="quiet"
          className="h-7 px-2"
          onClick={() => change(Object.fromEntries(active.map(([name]) => [name, undefined])))}
        >
          {texts.clear}
        </Button>
      )}
    </div>
  );
}

function titleOf(name: FilterName): string {
  return texts.names[name] ?? name;
}

function Shown({ kind, text }: { readonly kind: FilterKind | undefined; readonly text: string }) {
  const values = valuesOf(text);
  const keys = useKeyNames(kind?.name === 'api_key_ids' ? values : []);
  const workspaces = useWorkspaceNames();
  if (kind === undefined) return text;
  if (kind.type === 'flag') return text === 'true' ? texts.yes : texts.no;
  if (kind.type === 'pairs') return list(pairsOf(text).map(([name, value]) => `${name} = ${value}`)) || text;
  if (kind.type === 'least' || kind.type === 'most') return String(Number(text) / (kind.factor ?? 1));
  return list(
    (kind.type === 'one' ? [text] : values).map(
      (value) => keys.get(value) ?? workspaces.get(value) ?? (value === '' ? texts.empty : shortId(value)),
    ),
  );
}

function Chooser({ onChoose }: { readonly onChoose: (name: FilterName) => void }) {
  return (
    <Command label={texts.addHint} loop>
      <Command.Input
        autoFocus
        aria-label={texts.addHint}
        placeholder={texts.addHint}
        className="border-line h-8 w-full border-b bg-transparent px-2 outline-none"
      />
      <Command.List className="max-h-80 overflow-y-auto pt-1" label={texts.addHint}>
        {filterKinds.map(({ name }) => (
          <Command.Item key={name} value={titleOf(name)} className={itemLook} onSelect={() => onChoose(name)}>
            {titleOf(name)}
          </Command.Item>
        ))}
      </Command.List>
    </Command>
  );
}

interface EditorProps {
  readonly kind: FilterKind;
  readonly text: string | undefined;
  readonly range: Range;
  readonly onChange: (text: string | undefined) => void;
  readonly onDone: () => void;
}

function Editor(props: EditorProps) {
  const { type } = props.kind;
  if (type === 'pairs') return <PairEditor {...props} />;
  if (type === 'least' || type === 'most') return <BoundEditor {...props} />;
  return <ValueEditor {...props} />;
}

interface Value {
  readonly value: string;
  readonly requests?: number;
}

interface Offered {
  readonly values: readonly Value[];
  /** Shown where no value fits; undefined while they are asked for. */
  readonly note: string | undefined;
}

/** A group of analytics, or the values of a name of metadata. */
type Source = string | { readonly metadata: string };

/** Values that requests of the range have, the most frequent first. */
function useValues(source: Source | undefined, range: Range): Offered {
  const { zone } = usePreferences();
  const { may } = useSession();
  const { data, isLoading } = useQuery({
    queryKey: ['filter-values', source, range, zone],
    queryFn: async ({ signal }): Promise<readonly Value[]> => {
      const query = { ...timesOf(spanOf(range, zone)), page_size: 100 };
      if (source === 'users') {
        const found = await dataOf(api.GET('/analytics/groups/users', { params: { query }, signal }));
        return found.data.map(({ user, requests }) => ({ value: user, requests }));
      }
      if (typeof source === 'object') {
        // Without its other columns, which cost more.
        const params = { path: { metadataKey: source.metadata }, query: { ...query, columns: 'requests' } };
        const found = await dataOf(api.GET('/analytics/groups/metadata/{metadataKey}', { params, signal }));
        return found.data.map(({ metadata_value: value, requests }) => ({ value, requests }));
      }
      const group = source ?? '';
      const params = { path: { groupBy: group }, query };
      const found = await dataOf(api.GET('/analytics/groups/{groupBy}', { params, signal }));
      return found.data.map((row) => ({
        value: String(row[group] ?? ''),
        requests: Number(row['requests']),
      }));
    },
    enabled: source !== undefined && may('analytics.view'),
    staleTime: 30_000,
    retry: false,
  });
  if (isLoading) return { values: [], note: undefined };
  return data === undefined ? { values: [], note: texts.onlyTyped } : { values: data, note: texts.none };
}

interface ValueListProps {
  /** The accessible name. */
  readonly title: string;
  readonly hint: string;
  readonly offered: Offered;
  readonly chosen: readonly string[];
  /** Default: what is typed can be taken, also when it is not offered. */
  readonly isClosed?: boolean;
  readonly wordsFor?: (value: string) => string;
  readonly onChoose: (value: string) => void;
  /** Backspace where nothing is typed. */
  readonly onBack?: () => void;
}

/** A field to type in, and the values that fit, with the chosen ones marked. */
function ValueList({
  title,
  hint,
  offered: { values, note },
  chosen,
  isClosed = false,
  wordsFor = (value) => (value === '' ? texts.empty : value),
  onChoose,
  onBack,
}: ValueListProps) {
  const [typed, setTyped] = useState('');
  const choose = (value: string): void => {
    setTyped('');
    onChoose(value);
  };
  const wanted = typed.trim();
  const lower = wanted.toLowerCase();
  const missing = chosen.filter((value) => !values.some((other) => other.value === value));
  const all = [...missing.map((value): Value => ({ value })), ...values];
  const found = all.filter(({ value }) => `${value} ${wordsFor(value)}`.toLowerCase().includes(lower));
  const isNew = wanted !== '' && !isClosed && !all.some(({ value }) => value === wanted);
  return (
    <Command label={title} loop shouldFilter={false}>
      <Command.Input
        autoFocus
        aria-label={title}
        placeholder={hint}
        className="border-line h-8 w-full border-b bg-transparent px-2 outline-none"
        value={typed}
        onValueChange={setTyped}
        onKeyDown={(event) => {
          if (event.key === 'Backspace' && typed === '' && !event.repeat) onBack?.();
        }}
      />
      <Command.List className="max-h-80 overflow-y-auto pt-1" label={title}>
        {found.slice(0, 100).map(({ value, requests }) => (
          <Command.Item
            key={value}
            // As JSON, which also holds spaces at its ends and half a surrogate pair.
            value={JSON.stringify(value)}
            className={itemLook}
            onSelect={() => choose(value)}
          >
            <Check
              className={chosen.includes(value) ? 'size-4 shrink-0' : 'invisible size-4 shrink-0'}
              aria-hidden
            />
            <span className="grow truncate">{wordsFor(value)}</span>
            {requests !== undefined && (
              <span className="text-soft text-xs tabular-nums">{count(requests)}</span>
            )}
          </Command.Item>
        ))}
        {isNew && (
          <Command.Item value="typed" className={itemLook} onSelect={() => choose(wanted)}>
            <span className="truncate">{texts.typed(wanted)}</span>
          </Command.Item>
        )}
      </Command.List>
      {found.length === 0 && !isNew && <p className="text-soft p-3 text-center">{note}</p>}
    </Command>
  );
}

function ValueEditor({ kind, text, range, onChange, onDone }: EditorProps) {
  const found = useValues(kind.group, range);
  // A list of one value cannot be an empty one; all others can.
  const isOne = kind.type !== 'list';
  const values = kind.values?.map((value) => ({ value })) ?? found.values;
  const offered = values.filter(({ value }) => value !== '' || !isOne);
  const chosen = isOne ? (text === undefined ? [] : [text]) : valuesOf(text);
  const keys = useKeyNames(kind.name === 'api_key_ids' ? offered.map(({ value }) => value) : []);
  const workspaces = useWorkspaceNames();
  const wordsFor = (value: string): string => {
    if (kind.type === 'flag') return value === 'true' ? texts.yes : texts.no;
    return keys.get(value) ?? workspaces.get(value) ?? (value === '' ? texts.empty : value);
  };
  const toggle = (value: string): void => {
    if (isOne) {
      onChange(value === text ? undefined : value);
      return onDone();
    }
    onChange(
      listText(chosen.includes(value) ? chosen.filter((other) => other !== value) : [...chosen, value]),
    );
  };
  return (
    <ValueList
      title={titleOf(kind.name)}
      hint={texts.valueHint(titleOf(kind.name))}
      offered={{ values: offered, note: kind.values === undefined ? found.note : texts.none }}
      chosen={chosen}
      isClosed={kind.type === 'flag'}
      wordsFor={wordsFor}
      onChoose={toggle}
    />
  );
}

function BoundEditor({ kind, text, onChange, onDone }: EditorProps) {
  const factor = kind.factor ?? 1;
  const [value, setValue] = useState(text === undefined ? '' : String(Number(text) / factor));
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    onChange(value === '' ? undefined : String(Number((Number(value) * factor).toPrecision(12))));
    onDone();
  };
  return (
    <form className="flex gap-2 p-2" onSubmit={submit}>
      <Input
        autoFocus
        type="number"
        step="any"
        min={kind.name.startsWith('weighted') ? -10 : 0}
        aria-label={titleOf(kind.name)}
        placeholder={titleOf(kind.name)}
        value={value}
        onChange={(event) => setValue(event.target.value)}
      />
      <Button type="submit">{texts.done}</Button>
    </form>
  );
}

/** A name is chosen first, then its value. */
function PairEditor({ kind, text, range, onChange, onDone }: EditorProps) {
  const [name, setName] = useState<string>();
  const names = useValues(kind.group, range);
  const values = useValues(name === undefined ? undefined : { metadata: name }, range);
  const pairs = pairsOf(text);
  const set = (own: string, value: string | undefined): void => {
    const others = pairs.filter(([other]) => other !== own);
    const next = value === undefined ? others : [...others, [own, value] as const];
    onChange(next.length === 0 ? undefined : JSON.stringify(Object.fromEntries(next)));
  };
  if (name !== undefined) {
    const chosen = pairs.filter(([own]) => own === name).map(([, value]) => value);
    return (
      <>
        <p className="flex items-center gap-1">
          <button
            type="button"
            aria-label={texts.otherName}
            className="hover:bg-accent-wash flex size-7 shrink-0 items-center justify-center rounded-md"
            onClick={() => setName(undefined)}
          >
            <ArrowLeft className="size-4" aria-hidden />
          </button>
          <span className="truncate font-medium">{name}</span>
        </p>
        <ValueList
          key={name}
          title={texts.valueOf(name)}
          hint={texts.valueHint(name)}
          offered={values}
          chosen={chosen}
          onBack={() => setName(undefined)}
          onChoose={(value) => {
            set(name, chosen.includes(value) ? undefined : value);
            onDone();
          }}
        />
      </>
    );
  }
  return (
    <>
      {pairs.map(([own, value]) => (
        <p key={own} className="flex items-center gap-2 pl-2">
          <span className="grow truncate">
            {own} = {value === '' ? texts.empty : value}
          </span>
          <button
            type="button"
            aria-label={texts.remove(own)}
            className="hover:bg-accent-wash flex size-7 shrink-0 items-center justify-center rounded-md"
            onClick={() => set(own, undefined)}
          >
            <X className="size-4" aria-hidden />
          </button>
        </p>
      ))}
      <ValueList
        key="names"
        title={titleOf(kind.name)}
        hint={texts.nameHint}
        // A request to the gateway may have an empty name; one to its API cannot ask for it.
        offered={{ ...names, values: names.values.filter(({ value }) => value !== '') }}
        chosen={pairs.map(([own]) => own)}
        onChoose={setName}
      />
    </>
  );
}
