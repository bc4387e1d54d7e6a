import { useRef, useState } from 'react';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useNavigate, useParams } from '@tanstack/react-router';
import { ArrowLeft } from 'lucide-react';
import { api, dataOf } from '@/api/client';
import { isOfOrganisation, useCaller, useSession } from '@/api/session';
import { useAddressTexts } from '@/lib/address';
import { Editor, isBlank } from '@/pages/prompts/editor';
import {
  CollectionField,
  type OnePromptProps,
  Problem,
  RenameDialog,
  SaveDialog,
} from '@/pages/prompts/dialogs';
import {
  type Draft,
  DraftFault,
  draftOf,
  emptyDraft,
  type Faults,
  faultsOf,
  versionOf,
} from '@/pages/prompts/template';
import { Try } from '@/pages/prompts/try';
import { useVersions, Versions } from '@/pages/prompts/versions';
import { workspaceFinder } from '@/resource/common-fields';
import { versioned } from '@/resource/declaration';
import { Reference } from '@/resource/reference';
import { Tabs } from '@/resource/sheet';
import { WhoChanged } from '@/resource/who-changed';
import { prompts as texts } from '@/texts/prompts';
import { Button } from '@/ui/button';
import { Confirm } from '@/ui/dialog';
import { Field, Input } from '@/ui/fields';
import { Page } from '@/ui/page';
import { Badge, Code } from '@/ui/small';
import { Loaded } from '@/ui/states';
import { useToast } from '@/ui/toast';
import { Unsaved } from '@/ui/unsaved';

const keyOf = (draft: Draft): string => JSON.stringify(draft);

function back() {
  return (
    <Link to="/prompts" className="text-soft hover:text-ink inline-flex items-center gap-1">
      <ArrowLeft className="size-4" aria-hidden />
      {texts.back}
    </Link>
  );
}

/** `/prompts/$id`: one prompt; `new` makes one. */
export default function PromptPage() {
  const { id = '' } = useParams({ strict: false });
  const [{ version }] = useAddressTexts();
  const reference = version === undefined ? id : `${id}@${version}`;
  const query = useQuery({
    queryKey: ['prompts', 'one', reference],
    enabled: id !== 'new',
    queryFn: () => versioned(api.GET('/prompts/{promptId}', { params: { path: { promptId: reference } } })),
  });
  if (id === 'new') return <NewPrompt />;
  const shown = (
    <Loaded
      query={query}
      lines={10}
      wanted={{ noun: texts.noun, id: reference, list: { to: '/prompts' }, audited: version === undefined }}
    >
      {({ record, version: etag }) => (
        <OnePrompt key={record.prompt_version_id} prompt={record} etag={etag} />
      )}
    </Loaded>
  );
  return query.data === undefined ? <Page title={texts.one}>{shown}</Page> : shown;
}

function NewPrompt() {
  const caller = useCaller();
  // A caller of the organisation says the workspace; its own is the likely one.
  const own = isOfOrganisation(caller) ? caller.workspace_id : '';
  const [{ name = '', collection = '', workspace = own }] = useAddressTexts();
  const [before] = useState<Draft>(() => ({ ...emptyDraft, name, collection, workspace }));
  const [draft, setDraft] = useState(before);
  const done = useRef(false);
  const [problem, setProblem] = useState(faultsOf(new DraftFault('name', '')));
  const [tried, setTried] = useState(false);
  const navigate = useNavigate();
  const say = useToast();
  const queries = useQueryClient();
  const create = useMutation({
    mutationFn: async () => {
      setTried(true);
      if (draft.name.trim() === '') throw new DraftFault('name', texts.fault.name);
      if (isBlank(draft)) throw new DraftFault(draft.form === 'text' ? 'text' : 'messages', texts.fault.name);
      return dataOf(
        api.POST('/prompts', {
          body: {
            ...versionOf(draft, texts.fault),
            name: draft.name.trim(),
            ...(draft.collection !== '' && { collection_id: draft.collection }),
            ...(draft.workspace !== '' && { workspace_id: draft.workspace }),
          },
        }),
      );
    },
    onError: (error) => setProblem(faultsOf(error)),
    onSuccess: async ({ id }) => {
      await queries.invalidateQueries({ queryKey: ['prompts'] });
      say({ text: texts.created, tone: 'good' });
      done.current = true;
      void navigate({ to: '/prompts/$id', params: { id }, replace: true });
    },
  });
  const faults = tried ? problem.faults : {};
  return (
    <Page
      title={texts.new}
      actions={
        <Button kind="primary" busy={create.isPending} onClick={() => create.mutate()}>
          {texts.create}
        </Button>
      }
    >
      <div>{back()}</div>
      {tried && problem.rest !== undefined && <Problem text={problem.rest} />}
      <div className="grid gap-4 sm:grid-cols-3">
        <Field label={texts.field.name} fault={faults.name}>
          {(control) => (
            <Input
              {...control}
              autoFocus
              required
              value={draft.name}
              onChange={({ target }) => setDraft({ ...draft, name: target.value })}
            />
          )}
        </Field>
        {isOfOrganisation(caller) && (
          <Field label={texts.field.workspace} fault={faults.workspace}>
            {(control) => (
              <Reference
                {...control}
                label={texts.field.workspace}
                value={draft.workspace}
                onChange={(value) => setDraft({ ...draft, workspace: String(value), collection: '' })}
                find={workspaceFinder}
              />
            )}
          </Field>
        )}
        <CollectionField
          workspace={draft.workspace}
          value={draft.collection}
          fault={faults.collection}
          onChange={(value) => setDraft({ ...draft, collection: value })}
        />
      </div>
      <Editor draft={draft} onChange={setDraft} faults={faults} disabled={false} />
      <Unsaved dirty={() => !done.current && keyOf(draft) !== keyOf(before)} />
    </Page>
  );
}

function OnePrompt({ prompt, etag }: OnePromptProps) {
  const [{ tab = 'edit' }, change] = useAddressTexts();
  const { may } = useSession();
  // What the user began with stays, while the prompt is read again behind it.
  const [before] = useState(() => draftOf(prompt));
  const [draft, setDraft] = useState(before);
  const [faults, setFaults] = useState<Faults>({});
  const [dialog, setDialog] = useState<'save' | 'rename' | 'remove'>();
  const versions = useVersions(prompt.id);
  const latest = versions.data?.[0]?.prompt_version ?? prompt.prompt_version;
  const dirty = keyOf(draft) !== keyOf(before);
  const done = useRef(false);
  // The version that the user began to change: a save names it, so that a change in between is told.
  const seen = useRef(etag);
  if (!dirty) seen.current = etag;
  const mayWrite = may('prompts.update');
  const navigate = useNavigate();
  const queries = useQueryClient();
  const say = useToast();
  const remove = async (): Promise<void> => {
    await dataOf(api.DELETE('/prompts/{promptId}', { params: { path: { promptId: prompt.id } } }));
    say({ text: texts.removed, tone: 'good' });
    done.current = true;
    await navigate({ to: '/prompts' });
    await queries.invalidateQueries({ queryKey: ['prompts', 'list'] });
  };
  return (
    <Page
      title={prompt.name}
      intro={
        <span className="flex flex-wrap items-center gap-2 pt-1">
          <Code text={prompt.slug} />
          <span>{texts.version(prompt.prompt_version)}</span>
          {prompt.prompt_version_status === 'active' ? (
            <Badge tone="good">{texts.isDefault}</Badge>
          ) : (
            <Badge tone="warn">{texts.notDefault}</Badge>
          )}
          {latest > prompt.prompt_version && (
            <button
              type="button"
              className="text-accent underline"
              onClick={() => change({ version: latest })}
            >
              {texts.newer(latest)}
            </button>
          )}
        </span>
      }
      actions={
        <>
          {dirty && <span className="text-warn">{texts.dirty}</span>}
          {dirty && <Button onClick={() => setDraft(before)}>{texts.discard}</Button>}
          {mayWrite && <Button onClick={() => setDialog('rename')}>{texts.rename}</Button>}
          <WhoChanged kind="prompts" id={prompt.id} />
          {may('prompts.delete') && (
            <Button kind="danger" onClick={() => setDialog('remove')}>
              {texts.remove}
            </Button>
          )}
          {mayWrite && (
            <Button kind={dirty ? 'primary' : 'plain'} disabled={!dirty} onClick={() => setDialog('save')}>
              {texts.save}
            </Button>
          )}
        </>
      }
    >
      <div>{back()}</div>
      <Tabs
        chosen={tab}
        tabs={Object.entries(texts.tabs)}
        onChange={(next) => change({ tab: next === 'edit' ? undefined : next })}
      />
      {tab === 'versions' ? (
        <Versions prompt={prompt} />
      ) : tab === 'try' ? (
        <Try prompt={prompt} dirty={dirty} />
      ) : (
        <Editor draft={draft} onChange={setDraft} faults={faults} disabled={!mayWrite} />
      )}
      {dialog === 'save' && (
        <SaveDialog
          {...{ prompt, draft, before }}
          etag={seen.current}
          number={latest + 1}
          onClose={() => setDialog(undefined)}
          onFaults={(found) => {
            setFaults(found);
            setDialog(undefined);
            change({ tab: undefined });
          }}
        />
      )}
      {dialog === 'rename' && (
        <RenameDialog prompt={prompt} etag={etag} onClose={() => setDialog(undefined)} />
      )}
      <Confirm
        open={dialog === 'remove'}
        onOpenChange={(open) => !open && setDialog(undefined)}
        title={texts.removeTitle(prompt.name)}
        text={texts.removeText}
        action={texts.remove}
        typed={prompt.slug}
        onConfirm={remove}
      />
      <Unsaved dirty={() => dirty && !done.current} />
    </Page>
  );
}
