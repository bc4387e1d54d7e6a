import { useState, type FormEvent } from 'react';
import { useQuery } from '@tanstack/react-query';
import { Command } from 'cmdk';
import { Popover } from 'radix-ui';
import { Check, ListFilter, X } from 'lucide-react';
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
import { count } from '@/lib/format';
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
  if (kind.type === 'pairs')
    return (
      pairsOf(text)
        .map(([name, value]) => `${name} = ${value}`)
        .join(', ') || text
    );
  if (kind.type === 'least' || kind.type === 'most') return String(Number(text) / (kind.factor ?? 1));
  return (kind.type === 'one' ? [text] : values)
    .map((value) => keys.get(value) ?? workspaces.get(value) ?? (value === '' ? texts.empty : shortId(value)))
    .join(', ');
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

/** Values that requests of the range have, the most frequent first. */
function useValues({ group, values, name }: FilterKind, range: Range): readonly Value[] {
  const { zone } = usePreferences();
  const { may } = useSession();
  const { data } = useQuery({
    queryKey: ['filter-values', group, range, zone],
    queryFn: async ({ signal }): Promise<readonly Value[]> => {
      const query = { ...timesOf(spanOf(range, zone)), page_size: 100 };
      if (group === 'users') {
        const found = await dataOf(api.GET('/analytics/groups/users', { params: { query }, signal }));
        return found.data.map(({ user, requests }) => ({ value: user, requests }));
      }
      const path = { groupBy: group ?? '' };
      const found = await dataOf(api.GET('/analytics/groups/{groupBy}', { params: { path, query }, signal }));
      return found.data.map((row) => ({
        value: String(row[group ?? ''] ?? ''),
        requests: Number(row['requests']),
      }));
    },
    enabled: group !== undefined && may('analytics.view'),
    staleTime: 30_000,
    retry: false,
  });
  // A list of one value cannot be an empty one; all others can.
  return (
    data?.filter(({ value }) => value !== '' || name !== 'workspace_id') ??
    (values ?? []).map((value) => ({ value }))
  );
}

function ValueEditor({ kind, text, range, onChange, onDone }: EditorProps) {
  const [typed, setTyped] = useState('');
  const offered = useValues(kind, range);
  const one = kind.type !== 'list';
  const chosen = one ? (text === undefined ? [] : [text]) : valuesOf(text);
  const keys = useKeyNames(kind.name === 'api_key_ids' ? offered.map(({ value }) => value) : []);
  const workspaces = useWorkspaceNames();
  const wordsFor = (value: string): string => {
    if (kind.type === 'flag') return value === 'true' ? texts.yes : texts.no;
    return keys.get(value) ?? workspaces.get(value) ?? (value === '' ? texts.empty : value);
  };
  const toggle = (value: string): void => {
    if (one) {
      onChange(value === text ? undefined : value);
      return onDone();
    }
    const next = chosen.includes(value) ? chosen.filter((other) => other !== value) : [...chosen, value];
    onChange(listText(next));
    setTyped('');
  };
  const lower = typed.trim().toLowerCase();
  const missing = chosen.filter((value) => !offered.some((other) => other.value === value));
  const all = [...missing.map((value): Value => ({ value })), ...offered];
  const found = all.filter(({ value }) => `${value} ${wordsFor(value)}`.toLowerCase().includes(lower));
  const isNew = lower !== '' && kind.type !== 'flag' && !all.some(({ value }) => value === typed.trim());
  return (
    <Command label={titleOf(kind.name)} loop shouldFilter={false}>
      <Command.Input
        autoFocus
        aria-label={titleOf(kind.name)}
        placeholder={texts.valueHint(titleOf(kind.name))}
        className="border-line h-8 w-full border-b bg-transparent px-2 outline-none"
        value={typed}
        onValueChange={setTyped}
      />
      <Command.List className="max-h-80 overflow-y-auto pt-1" label={titleOf(kind.name)}>
        {found.slice(0, 100).map(({ value, requests }) => (
          <Command.Item key={value} value={`=${value}`} className={itemLook} onSelect={() => toggle(value)}>
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
          <Command.Item value={`+${typed}`} className={itemLook} onSelect={() => toggle(typed.trim())}>
            {texts.typed(typed.trim())}
          </Command.Item>
        )}
        {found.length === 0 && !isNew && <p className="text-soft p-3 text-center">{texts.none}</p>}
      </Command.List>
    </Command>
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

function PairEditor({ text, onChange, onDone }: EditorProps) {
  const pairs = pairsOf(text);
  const [name, setName] = useState('');
  const [value, setValue] = useState('');
  const write = (next: readonly (readonly [string, string])[]): void =>
    onChange(next.length === 0 ? undefined : JSON.stringify(Object.fromEntries(next)));
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (name.trim() !== '')
      write([...pairs.filter(([other]) => other !== name.trim()), [name.trim(), value]]);
    onDone();
  };
  return (
    <form className="grid gap-2 p-2" onSubmit={submit}>
      {pairs.map(([own, said]) => (
        <p key={own} className="flex items-center gap-2">
          <span className="grow truncate">
            {own} = {said}
          </span>
          <button
            type="button"
            aria-label={texts.remove(own)}
            onClick={() => write(pairs.filter(([other]) => other !== own))}
          >
            <X className="size-4" aria-hidden />
          </button>
        </p>
      ))}
      <div className="flex gap-2">
        <Input
          autoFocus
          aria-label={texts.pairName}
          placeholder={texts.pairName}
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
        <Input
          aria-label={texts.pairValue}
          placeholder={texts.pairValue}
          value={value}
          onChange={(event) => setValue(event.target.value)}
        />
      </div>
      <Button type="submit">{texts.done}</Button>
    </form>
  );
}
