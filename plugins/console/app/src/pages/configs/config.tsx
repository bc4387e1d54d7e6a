import { useCallback, useEffect, useMemo, useRef, useState } from 'react';
import { Link, useNavigate, useParams } from '@tanstack/react-router';
import { keepPreviousData, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Archive, Save } from 'lucide-react';
import { api, ApiError, dataOf } from '@/api/client';
import type { operations } from '@/api/schema.gen';
import { facts } from '@/api/facts';
import { useSession } from '@/api/session';
import type { PointedFault } from '@/editor/json-assist';
import type { EditorHandle } from '@/editor/json-editor';
import { JsonText } from '@/editor/json-text';
import { textOf, useAddress } from '@/lib/address';
import { classes } from '@/lib/classes';
import { isObject } from '@/lib/json';
import { useLater } from '@/lib/later';
import { useWorkspaceNames } from '@/lib/names';
import { WhoChanged } from '@/resource/who-changed';
import { ExplainPanel, firstSample, type Plan, requestOf } from '@/pages/configs/explain-panel';
import { RoutingGraph } from '@/pages/configs/routing-graph';
import { isShape, shapes, textOfConfig } from '@/pages/configs/shapes';
import { Versions } from '@/pages/configs/versions';
import { common } from '@/texts/common';
import { configs as texts } from '@/texts/configs';
import { Button } from '@/ui/button';
import { Confirm, Dialog } from '@/ui/dialog';
import { Checkbox, Field, Input, Select } from '@/ui/fields';
import { LineDiff } from '@/ui/line-diff';
import { Page } from '@/ui/page';
import { Badge, Code, Sentence } from '@/ui/small';
import { Loaded } from '@/ui/states';
import { useToast } from '@/ui/toast';
import { Unsaved } from '@/ui/unsaved';
import { checks } from '@/texts/checks';

type Stored = operations['configs.get']['responses'][200]['content']['application/json']['data'];

/** A config as it is stored, with the version that a change names; undefined for a new one. */
interface LoadedConfig {
  readonly stored: Stored | undefined;
  readonly etag: string | undefined;
}

const views = ['explain', 'graph', 'versions'] as const;
const pauseMs = 400;

async function loadConfig(id: string): Promise<LoadedConfig> {
  const { data, response } = await api.GET('/configs/{slug}', { params: { path: { slug: id } } });
  return { stored: data?.data, etag: response.headers.get('etag') ?? undefined };
}

/** One config: its text with everything that helps to write it. */
export default function ConfigPage() {
  const { id = '' } = useParams({ strict: false });
  const query = useQuery({
    queryKey: ['config', id],
    queryFn: () => (id === 'new' ? { stored: undefined, etag: undefined } : loadConfig(id)),
    // A refresh does not replace a text that is being written.
    staleTime: Infinity,
    refetchOnWindowFocus: false,
    gcTime: 0,
  });
  const { noun, title } = texts.one;
  const shown = (
    <Loaded query={query} lines={12} wanted={{ noun, id, list: { to: '/configs' }, audited: true }}>
      {(loaded) => <Editing key={id} id={id} loaded={loaded} />}
    </Loaded>
  );
  return query.data === undefined ? <Page title={title}>{shown}</Page> : shown;
}

function Editing({ id, loaded }: { readonly id: string; readonly loaded: LoadedConfig }) {
  const { search, change } = useAddress();
  const { may } = useSession();
  const navigate = useNavigate();
  const queries = useQueryClient();
  const say = useToast();
  const [base, setBase] = useState(loaded);
  const { stored } = base;
  const shape = search['shape'];
  const begun =
    stored === undefined ? textOfConfig(isShape(shape) ? shapes[shape] : {}) : textOfConfig(stored.config);
  const [text, setText] = useState(begun);
  const [name, setName] = useState(stored?.name ?? '');
  const [isDefault, setDefault] = useState(stored?.is_default === 1);
  const [workspace, setWorkspace] = useState('');
  const [sample, setSample] = useState(firstSample);
  const [refused, setRefused] = useState<readonly PointedFault[]>([]);
  const [fault, setFault] = useState<string>();
  const [theirs, setTheirs] = useState<LoadedConfig>();
  const [archiving, setArchiving] = useState(false);
  const editor = useRef<EditorHandle>(null);
  const done = useRef(false);

  const config = useMemo(() => parsed(text), [text]);
  const isOwn = stored === undefined || stored.managed_by === 'api';
  const isActive = stored === undefined || stored.status === 'active';
  const mayWrite = isOwn && isActive && may(stored === undefined ? 'configs.create' : 'configs.update');
  const dirty =
    stored === undefined
      ? name !== '' || text !== begun
      : text !== textOfConfig(stored.config) ||
        name !== stored.name ||
        isDefault !== (stored.is_default === 1);

  const schema = useQuery({
    queryKey: ['config-schema'],
    queryFn: ({ signal }) => dataOf(api.GET('/configs/schema', { signal })),
    staleTime: Infinity,
  });
  const workspaces = useWorkspaceNames();
  const asked = useLater(JSON.stringify([config, sample, workspace]), pauseMs);
  const settled = asked === JSON.stringify([config, sample, workspace]);
  const plan = useQuery({
    queryKey: ['explain', id, asked],
    queryFn: async ({ signal }): Promise<Plan> => {
      const { data } = await api.POST('/configs/explain', {
        body: {
          config: config as Record<string, unknown>,
          ...(stored !== undefined && { slug: stored.slug }),
          ...(workspace !== '' && { workspace_id: workspace }),
          ...(stored?.workspace_id && { workspace_id: stored.workspace_id }),
          request: requestOf(sample, facts.prefix),
        },
        signal,
      });
      if (data === undefined) throw new Error(checks.noPlan);
      return data.data;
    },
    enabled: isObject(config) && settled && may('configs.read'),
    retry: false,
    placeholderData: keepPreviousData,
    gcTime: 0,
  });
  const found = plan.error instanceof ApiError && settled ? plan.error.mistakes : [];
  const faults = useMemo(
    () => [...refused, ...found].map((one) => ({ ...one, path: one.path.replace(/^\/config(?=\/|$)/, '') })),
    [refused, found],
  );
  const hasFaults = !isObject(config) || faults.length > 0;

  const onText = useCallback((next: string) => {
    setText(next);
    setRefused([]);
    setFault(undefined);
  }, []);
  const reveal = (option: string): void => editor.current?.reveal(pointerOf(option));

  const save = useMutation({
    mutationFn: async (over: string | undefined): Promise<string> => {
      const body = {
        name: name.trim(),
        config: config as Record<string, unknown>,
        isDefault: isDefault ? (1 as const) : (0 as const),
      };
      if (stored === undefined) {
        const made = await dataOf(
          api.POST('/configs', { body: { ...body, ...(workspace !== '' && { workspace_id: workspace }) } }),
        );
        return made.data.id;
      }
      const match = over ?? base.etag;
      await api.PUT('/configs/{slug}', {
        params: { path: { slug: stored.id } },
        body,
        ...(match !== undefined && { headers: { 'if-match': match } }),
      });
      return stored.id;
    },
    onSuccess: async (saved) => {
      setTheirs(undefined);
      setRefused([]);
      setFault(undefined);
      say({ text: texts.one.saved, tone: 'good' });
      await queries.invalidateQueries({ queryKey: ['configs'] });
      await queries.invalidateQueries({ queryKey: ['config-versions', id] });
      if (stored === undefined) {
        done.current = true;
        await navigate({ to: `/configs/${saved}` });
      } else setBase(await loadConfig(saved));
    },
    onError: async (error) => {
      if (!(error instanceof ApiError)) return setFault(String(error));
      if (error.status === 412 && stored !== undefined) return setTheirs(await loadConfig(stored.id));
      setRefused(error.mistakes.filter(({ path }) => path.startsWith('/config')));
      setFault(error.message);
    },
  });
  const trySave = (): void => {
    if (!mayWrite || save.isPending) return;
    if (!isObject(config)) setFault(texts.one.invalid);
    else save.mutate(undefined);
  };
  const setStatus = async (status: 'active' | 'archived'): Promise<void> => {
    if (stored === undefined) return;
    const headers = base.etag === undefined ? {} : { headers: { 'if-match': base.etag } };
    await api.PUT('/configs/{slug}', { params: { path: { slug: stored.id } }, body: { status }, ...headers });
    say({ text: status === 'active' ? texts.one.restored : texts.one.archivedToast, tone: 'good' });
    await queries.invalidateQueries({ queryKey: ['configs'] });
    setBase(await loadConfig(stored.id));
  };

  const offered = stored === undefined ? views.filter((one) => one !== 'versions') : views;
  const wanted = textOf(search['view']);
  const view = offered.find((one) => one === wanted) ?? 'explain';
  return (
    <Page
      full
      title={stored?.name ?? texts.create.title}
      actions={
        <>
          {dirty && <Badge tone="warn">{texts.one.unsaved}</Badge>}
          {stored !== undefined && isActive && may('completions.write') && (
            <Link
              to="/playground"
              search={() => ({ config: stored.slug })}
              className="border-line hover:bg-raised inline-flex h-8 items-center rounded-md border px-3 font-medium"
            >
              {texts.one.tryIt}
            </Link>
          )}
          {stored !== undefined && isOwn && <WhoChanged kind="configs" id={stored.id} />}
          {stored !== undefined && isOwn && isActive && may('configs.delete') && (
            <Button kind="danger" onClick={() => setArchiving(true)}>
              <Archive className="size-4" />
              {texts.one.archive}
            </Button>
          )}
          {stored !== undefined && isOwn && !isActive && may('configs.update') && (
            <Button onClick={() => void setStatus('active')}>{texts.one.restore}</Button>
          )}
          {mayWrite && (
            <Button
              kind="primary"
              busy={save.isPending}
              disabled={!dirty || name.trim() === ''}
              onClick={trySave}
            >
              <Save className="size-4" />
              {texts.one.save}
            </Button>
          )}
        </>
      }
    >
      {!isOwn && <p className="bg-raised text-soft rounded p-2">{texts.one.readOnly}</p>}
      {!isActive && <p className="bg-warn-wash text-warn rounded p-2">{texts.one.archivedNote}</p>}
      <div className="flex flex-wrap items-end gap-4">
        <Field label={texts.one.name} className="w-72">
          {(control) => (
            <Input
              {...control}
              required
              maxLength={255}
              value={name}
              disabled={!mayWrite}
              onChange={(event) => setName(event.target.value)}
            />
          )}
        </Field>
        {stored === undefined && workspaces.size > 0 && (
          <WorkspaceField value={workspace} names={workspaces} onChange={setWorkspace} />
        )}
        <Checkbox
          className="h-8"
          label={texts.one.isDefault}
          checked={isDefault}
          disabled={!mayWrite}
          onChange={(event) => setDefault(event.target.checked)}
        />
        {stored !== undefined && (
          <p className="text-soft flex min-h-8 min-w-0 flex-wrap items-center gap-x-2">
            <Sentence
              text={texts.one.use}
              parts={[<Code text={`${facts.prefix}-config: ${stored.slug}`} />]}
            />
          </p>
        )}
      </div>
      {fault !== undefined && (
        <p role="alert" className="bg-bad-wash text-bad rounded p-2 break-words">
          {fault}
        </p>
      )}
      <div className="grid min-h-0 grow gap-4 lg:grid-cols-2">
        <section className="border-line bg-panel flex min-h-80 min-w-0 flex-col overflow-hidden rounded-lg border">
          <div className="border-line flex items-center gap-2 border-b px-3 py-1.5">
            <span className="text-soft grow" role="status">
              {!settled || plan.isFetching
                ? texts.one.checking
                : !isObject(config)
                  ? texts.one.invalid
                  : faults.length === 0
                    ? texts.one.noFaults
                    : texts.one.faults(faults.length)}
            </span>
            {!isObject(config) && <FromYaml text={text} onJson={onText} />}
            {mayWrite && isObject(config) && (
              <Button kind="quiet" onClick={() => setText(textOfConfig(config))}>
                {texts.one.format}
              </Button>
            )}
          </div>
          <div className="min-h-0 grow">
            <JsonText
              label={texts.one.text}
              value={text}
              onChange={onText}
              schema={schema.data}
              faults={faults}
              readOnly={!mayWrite}
              onSave={trySave}
              handle={editor}
            />
          </div>
        </section>
        <section className="border-line bg-panel flex min-h-80 min-w-0 flex-col overflow-hidden rounded-lg border">
          <div role="group" aria-label={texts.viewsLabel} className="border-line flex border-b px-2">
            {offered.map((one) => (
              <button
                key={one}
                type="button"
                aria-pressed={view === one}
                className={classes(
                  'border-b-2 px-3 py-2 font-medium',
                  view === one ? 'border-accent text-accent' : 'text-soft border-transparent',
                )}
                onClick={() => change({ view: one }, { replace: true })}
              >
                {texts.views[one]}
              </button>
            ))}
          </div>
          <div
            className="min-h-0 grow overflow-auto"
            tabIndex={0}
            role="group"
            aria-label={texts.views[view]}
          >
            {view === 'explain' && (
              <ExplainPanel
                sample={sample}
                onSample={setSample}
                plan={plan}
                hasFaults={hasFaults}
                onReveal={reveal}
              />
            )}
            {view === 'graph' && (
              <RoutingGraph config={config} plan={hasFaults ? undefined : plan.data} onReveal={reveal} />
            )}
            {view === 'versions' && stored !== undefined && (
              <Versions
                id={id}
                text={text}
                onTake={
                  mayWrite
                    ? (older, version) => {
                        onText(older);
                        say({ text: texts.versions.taken(version), undo: () => onText(text) });
                      }
                    : undefined
                }
              />
            )}
          </div>
        </section>
      </div>
      <Dialog
        open={theirs?.stored !== undefined}
        onOpenChange={(open) => !open && setTheirs(undefined)}
        title={common.stale.title}
        description={common.stale.text}
        place="wide"
      >
        {theirs?.stored !== undefined && (
          <LineDiff label={texts.stale.diff} before={textOfConfig(theirs.stored.config)} after={text} />
        )}
        <div className="flex justify-end gap-2">
          <Button
            onClick={() => {
              if (theirs?.stored === undefined) return;
              setBase(theirs);
              setText(textOfConfig(theirs.stored.config));
              setName(theirs.stored.name);
              setDefault(theirs.stored.is_default === 1);
              setTheirs(undefined);
            }}
          >
            {common.stale.theirs}
          </Button>
          <Button kind="primary" busy={save.isPending} onClick={() => save.mutate(theirs?.etag)}>
            {common.stale.over}
          </Button>
        </div>
      </Dialog>
      <Confirm
        open={archiving}
        onOpenChange={setArchiving}
        title={texts.one.archiveTitle}
        text={texts.one.archiveText}
        action={texts.one.archive}
        onConfirm={() => setStatus('archived')}
      />
      <Unsaved dirty={() => dirty && !done.current} />
    </Page>
  );
}

interface WorkspaceFieldProps {
  readonly value: string;
  readonly names: ReadonlyMap<string, string>;
  readonly onChange: (id: string) => void;
}

/** Keys of the organisation say whose a new config is. */
function WorkspaceField({ value, names, onChange }: WorkspaceFieldProps) {
  const [first] = names.keys();
  useEffect(() => {
    if (value === '' && first !== undefined) onChange(first);
  }, [value, first, onChange]);
  return (
    <Field label={texts.one.workspace} className="w-56">
      {(control) => (
        <Select
          {...control}
          value={value}
          options={[...names]}
          onChange={(event) => onChange(event.target.value)}
        />
      )}
    </Field>
  );
}

/** Configs of the file are YAML: what is pasted from there becomes JSON with one press. */
function FromYaml({ text, onJson }: { readonly text: string; readonly onJson: (text: string) => void }) {
  const { data } = useQuery({
    queryKey: ['from-yaml', text],
    queryFn: async () => {
      const { parse } = await import('yaml');
      try {
        const value: unknown = parse(text, { maxAliasCount: 10 });
        return isObject(value) ? textOfConfig(value) : null;
      } catch {
        return null;
      }
    },
    enabled: text.length < 65_536 && !text.trimStart().startsWith('{'),
    gcTime: 0,
  });
  if (typeof data !== 'string') return null;
  return (
    <>
      <span className="text-soft">{texts.one.fromYaml}</span>
      <Button onClick={() => onJson(data)}>{texts.one.toJson}</Button>
    </>
  );
}

/** The value of a text; undefined for one that is no JSON. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** `config.targets[1].retry` as a JSON pointer: `/targets/1/retry`. */
function pointerOf(option: string): string {
  return [...option.matchAll(/\[(\d+)\]|\.([\w$-]+)/g)]
    .map(([, index, name]) => `/${index ?? name}`)
    .join('');
}
