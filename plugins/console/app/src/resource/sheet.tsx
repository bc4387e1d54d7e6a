import { useState, type ReactNode } from 'react';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Pencil, Trash2 } from 'lucide-react';
import { useSession } from '@/api/session';
import { useAddress, useAddressTexts, without } from '@/lib/address';
import type { Resource, Tools, Values, VersionHeaders, Versioned } from '@/resource/declaration';
import { RecordForm } from '@/resource/form';
import { ShownRecord } from '@/resource/shown';
import { WhoChanged } from '@/resource/who-changed';
import { common } from '@/texts/common';
import { resource as texts } from '@/texts/resource';
import { Button } from '@/ui/button';
import { Confirm, Dialog } from '@/ui/dialog';
import { Loaded } from '@/ui/states';
import { useToast } from '@/ui/toast';

function headersOf(version: string | undefined): VersionHeaders {
  return version === undefined ? {} : { 'if-match': version };
}

/** Why the record cannot be changed in the console. */
function lockOf(record: object): string | undefined {
  return 'managed_by' in record && record.managed_by === 'file' ? texts.file : undefined;
}

interface SheetProps<R extends object, C, U> {
  readonly resource: Resource<R, C, U>;
}

const closed = { open: undefined, edit: undefined, tab: undefined };

/** Details of the record that `?open` names; with `&edit=1`, its form. */
export function RecordSheet<R extends object, C, U>({ resource }: SheetProps<R, C, U>) {
  const [{ open = '', edit, tab, workspace = '' }, change] = useAddressTexts();
  const [dirty, setDirty] = useState(false);
  const [asks, setAsks] = useState(false);
  const queries = useQueryClient();
  const query = useQuery({
    queryKey: [resource.name, 'one', open, workspace],
    queryFn: () => resource.get(open, workspace),
  });
  const { search } = useAddress();
  const close = (): void => {
    setDirty(false);
    change(closed);
  };
  const leave = (isOpen: boolean): void => {
    if (isOpen) return;
    if (dirty && edit !== undefined) setAsks(true);
    else close();
  };
  const refresh = async (): Promise<void> => {
    await queries.invalidateQueries({ queryKey: [resource.name] });
  };
  const record = query.data?.record;
  const title = record === undefined ? resource.noun : resource.label(record);
  return (
    <Dialog open onOpenChange={leave} place="side" title={edit === undefined ? title : texts.edit(title)}>
      <Loaded
        query={query}
        wanted={{
          ...{ noun: resource.noun, id: open, audited: resource.audit !== undefined },
          list: { to: '.', search: without({ ...search, ...closed }) },
        }}
      >
        {(stored) =>
          edit === undefined || resource.update === undefined ? (
            <Details
              {...{ resource, stored, refresh, close }}
              tab={tab ?? 'details'}
              onTab={(next) => change({ tab: next === 'details' ? undefined : next }, { replace: true })}
              onEdit={() => change({ edit: '1', tab: undefined })}
            />
          ) : (
            <Edit
              {...{ resource, stored, refresh }}
              onDirty={setDirty}
              onDone={() => {
                setDirty(false);
                change({ edit: undefined });
              }}
            />
          )
        }
      </Loaded>
      <Discard open={asks} onOpenChange={setAsks} onConfirm={close} />
    </Dialog>
  );
}

interface DiscardProps {
  readonly open: boolean;
  readonly onOpenChange: (open: boolean) => void;
  readonly onConfirm: () => void;
}

/** Asks before what was typed is lost. */
function Discard({ onConfirm, ...dialog }: DiscardProps) {
  return <Confirm {...dialog} {...texts.discard} onConfirm={() => Promise.resolve().then(onConfirm)} />;
}

interface EditProps<R extends object, C, U> extends SheetProps<R, C, U> {
  readonly stored: Versioned<R>;
  readonly refresh: () => Promise<void>;
  readonly onDirty: (dirty: boolean) => void;
  readonly onDone: () => void;
}

function Edit<R extends object, C, U>(props: EditProps<R, C, U>) {
  const { resource, stored, refresh, onDirty, onDone } = props;
  const say = useToast();
  const [{ workspace = '' }] = useAddressTexts();
  const id = resource.id(stored.record);
  return (
    <RecordForm
      sections={resource.sections}
      stored={stored}
      onDirty={onDirty}
      onCancel={onDone}
      onStale={async () => {
        // The details behind the form show it as well.
        await refresh();
        return resource.get(id, workspace);
      }}
      onSubmit={async (body, version) => {
        // The form makes it of the declared fields; the gateway checks it.
        await resource.update?.run(id, body as U, headersOf(version));
        await refresh();
        say({ text: texts.saved, tone: 'good' });
        onDone();
      }}
    />
  );
}

interface DetailsProps<R extends object, C, U> extends SheetProps<R, C, U> {
  readonly stored: Versioned<R>;
  readonly refresh: () => Promise<void>;
  readonly close: () => void;
  readonly tab: string;
  readonly onTab: (tab: string) => void;
  readonly onEdit: () => void;
}

function Details<R extends object, C, U>(props: DetailsProps<R, C, U>) {
  const { resource, stored, refresh, close, tab, onTab, onEdit } = props;
  const queries = useQueryClient();
  const { may } = useSession();
  const say = useToast();
  const [asks, setAsks] = useState(false);
  const { record, version } = stored;
  const { update, remove } = resource;
  const lock = lockOf(record);
  const refused = lock ?? update?.refused?.(record);
  const tools: Tools = { refresh, version };
  const name = resource.label(record);
  const id = resource.id(record);
  const removing = useMutation({
    mutationFn: async () => {
      await remove?.run(id, headersOf(version));
      close();
      // Not the record itself: it is there no more.
      await queries.invalidateQueries({ queryKey: [resource.name, 'list'] });
      say({ text: texts.removed(remove?.action ?? '', name), tone: 'good' });
    },
  });
  const tabs = (resource.tabs ?? []).filter(({ scopes = [] }) => scopes.length === 0 || may(...scopes));
  const shownTab = tabs.find(({ key }) => key === tab);
  const ownId = 'id' in record && typeof record.id === 'string' ? record.id : id;
  return (
    <>
      <div className="flex flex-wrap gap-2">
        {update && may(...update.scopes) && refused === undefined && (
          <Button kind="primary" onClick={onEdit}>
            <Pencil className="size-4" />
            {common.action.edit}
          </Button>
        )}
        {lock === undefined && resource.actions?.(record, tools)}
        {resource.audit !== undefined && <WhoChanged kind={resource.audit} id={ownId} />}
        {remove && may(...remove.scopes) && lock === undefined && (remove.shown?.(record) ?? true) && (
          <Button kind="danger" className="ml-auto" onClick={() => setAsks(true)}>
            <Trash2 className="size-4" />
            {remove.action}
          </Button>
        )}
      </div>
      {refused !== undefined && <p className="bg-raised text-soft rounded-md p-3">{refused}</p>}
      {tabs.length > 0 && (
        <Tabs
          chosen={shownTab?.key ?? 'details'}
          tabs={[['details', texts.details], ...tabs.map(({ key, text }) => [key, text] as const)]}
          onChange={onTab}
        />
      )}
      {shownTab?.body(record) ?? (
        <>
          {resource.details?.(record, tools)}
          <ShownRecord sections={resource.sections} record={record} />
        </>
      )}
      {remove && (
        <Confirm
          open={asks}
          onOpenChange={setAsks}
          title={texts.remove(remove.action, name)}
          text={typeof remove.text === 'function' ? remove.text(record) : remove.text}
          action={remove.action}
          {...(remove.typed && { typed: remove.typed(record) })}
          onConfirm={() => removing.mutateAsync()}
        />
      )}
    </>
  );
}

interface TabsProps {
  readonly tabs: readonly (readonly [key: string, text: string])[];
  readonly chosen: string;
  readonly onChange: (key: string) => void;
}

/** Parts of a page, of which one is shown. */
export function Tabs({ tabs, chosen, onChange }: TabsProps): ReactNode {
  return (
    <div role="group" className="border-line flex flex-wrap gap-x-1 border-b">
      {tabs.map(([key, text]) => (
        <button
          key={key}
          type="button"
          aria-pressed={key === chosen}
          onClick={() => onChange(key)}
          className="text-soft hover:text-ink aria-pressed:border-accent aria-pressed:text-ink -mb-px border-b-2 border-transparent px-3 py-1.5 font-medium whitespace-nowrap"
        >
          {text}
        </button>
      ))}
    </div>
  );
}

/** The form of a new record: `?new=1`; other search parameters named `set./path` fill fields. */
export function NewRecord<R extends object, C, U>({ resource }: SheetProps<R, C, U>) {
  const [address, change] = useAddressTexts();
  const [dirty, setDirty] = useState(false);
  const [asks, setAsks] = useState(false);
  const [after, setAfter] = useState<ReactNode>();
  const queries = useQueryClient();
  const say = useToast();
  const close = (): void => change({ new: undefined });
  const leave = (): void => {
    if (dirty && after === undefined) setAsks(true);
    else close();
  };
  const { create } = resource;
  if (create === undefined) return null;
  const initial: Values = Object.fromEntries(
    Object.entries(address).flatMap(([name, value]) =>
      name.startsWith('set./') && value !== undefined ? [[name.slice(4), value]] : [],
    ),
  );
  return (
    <Dialog
      open
      place="side"
      title={texts.create(resource.noun)}
      onOpenChange={(isOpen) => {
        if (!isOpen) leave();
      }}
    >
      {after ?? (
        <RecordForm
          sections={resource.sections}
          stored={undefined}
          initial={initial}
          onDirty={setDirty}
          onCancel={leave}
          onSubmit={async (body) => {
            // The form makes it of the declared fields; the gateway checks it.
            const reply = await create.run(body as C);
            await queries.invalidateQueries({ queryKey: [resource.name] });
            say({ text: texts.created(resource.noun), tone: 'good' });
            setDirty(false);
            const shown = create.after?.(reply, close);
            if (shown !== undefined) return setAfter(shown);
            const id = idOf(reply);
            change({ new: undefined, open: id });
          }}
        />
      )}
      <Discard open={asks} onOpenChange={setAsks} onConfirm={close} />
    </Dialog>
  );
}

/** Slug or id of an answer about a new record; some stand in `data`. */
function idOf(reply: unknown): string | undefined {
  if (typeof reply !== 'object' || reply === null) return undefined;
  if ('data' in reply) return idOf(reply.data);
  if ('id' in reply && typeof reply.id === 'string') return reply.id;
  return 'slug' in reply && typeof reply.slug === 'string' ? reply.slug : undefined;
}
