import { useState } from 'react';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { api, ApiError, dataOf } from '@/api/client';
import { useSession } from '@/api/session';
import { useAddressTexts } from '@/lib/address';
import {
  type Draft,
  type Faults,
  faultsOf,
  type Prompt,
  readable,
  versionOf,
} from '@/pages/prompts/template';
import { versioned } from '@/resource/declaration';
import { common } from '@/texts/common';
import { prompts as texts } from '@/texts/prompts';
import { Button } from '@/ui/button';
import { Difference } from '@/ui/difference';
import { Dialog, DialogButtons } from '@/ui/dialog';
import { Checkbox, Field, Input, Select } from '@/ui/fields';
import { useToast } from '@/ui/toast';

export interface OnePromptProps {
  readonly prompt: Prompt;
  readonly etag: string | undefined;
}

/** A refusal that belongs to no field. */
export function Problem({ text }: { readonly text: string }) {
  return (
    <p role="alert" className="bg-bad-wash text-bad rounded-md p-3 break-words">
      {text}
    </p>
  );
}

interface CollectionFieldProps {
  readonly workspace: string;
  readonly value: string;
  readonly fault?: string | undefined;
  readonly onChange: (value: string) => void;
}

/** Chooses the collection of a prompt; empty: the one that every workspace has. */
export function CollectionField({ workspace, value, fault, onChange }: CollectionFieldProps) {
  const { may } = useSession();
  const query = useQuery({
    queryKey: ['collections', 'choice', workspace],
    enabled: may('prompts.list'),
    queryFn: () =>
      dataOf(
        api.GET('/collections', {
          params: { query: { page_size: 100, ...(workspace !== '' && { workspace_id: workspace }) } },
        }),
      ),
  });
  const found = query.data?.data.filter(({ is_default: isDefault }) => !isDefault || value !== '') ?? [];
  return (
    <Field label={texts.collection} fault={fault}>
      {(control) => (
        <Select
          {...control}
          value={value}
          options={[['', 'default'], ...found.map(({ id, name }) => [id, name] as const)]}
          onChange={({ target }) => onChange(target.value)}
        />
      )}
    </Field>
  );
}

interface SaveDialogProps extends OnePromptProps {
  readonly draft: Draft;
  readonly before: Draft;
  /** Of the version that is about to be. */
  readonly number: number;
  readonly onClose: () => void;
  readonly onFaults: (faults: Faults) => void;
}

/** Saves a draft as a new version, and says what it changes. */
export function SaveDialog({ prompt, etag, draft, before, number, onClose, onFaults }: SaveDialogProps) {
  const { may } = useSession();
  const [, change] = useAddressTexts();
  const [note, setNote] = useState('');
  const [isDefault, setDefault] = useState(false);
  const [problem, setProblem] = useState<string>();
  const [theirs, setTheirs] = useState<{ readonly record: Prompt; readonly version: string | undefined }>();
  const queries = useQueryClient();
  const say = useToast();
  const at = { path: { promptId: prompt.id } };
  const save = useMutation({
    mutationFn: async (version: string | undefined) => {
      const body = { ...versionOf(draft, texts.fault), ...(note !== '' && { version_description: note }) };
      const headers = version === undefined ? {} : { 'if-match': version };
      const { prompt_version_id: id } = await dataOf(
        api.PUT('/prompts/{promptId}', { params: at, body, headers }),
      );
      const made = await dataOf(
        api.GET('/prompts/{promptId}/versions/{versionId}', {
          params: { path: { promptId: prompt.id, versionId: id } },
        }),
      );
      if (isDefault)
        await dataOf(
          api.PUT('/prompts/{promptId}/makeDefault', { params: at, body: { version: made.prompt_version } }),
        );
      return made.prompt_version;
    },
    onSuccess: async (made) => {
      say({ text: isDefault ? texts.savedDefault(made) : texts.saved(made), tone: 'good' });
      onClose();
      change({ version: isDefault ? undefined : made });
      await queries.invalidateQueries({ queryKey: ['prompts'] });
    },
    onError: async (error) => {
      if (error instanceof ApiError && error.status === 412)
        return setTheirs(
          await versioned(
            api.GET('/prompts/{promptId}', { params: { path: { promptId: `${prompt.id}@latest` } } }),
          ),
        );
      const { faults, rest } = faultsOf(error);
      if (Object.keys(faults).length > 0) return onFaults(faults);
      setProblem(rest);
    },
  });
  const text = (one: Draft): string =>
    readable({ template: versionOf(one, texts.fault).string, parameters: {}, model: one.model });
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      place="wide"
      title={texts.saveTitle(number)}
      description={texts.saveText}
    >
      {problem !== undefined && <Problem text={problem} />}
      {theirs !== undefined ? (
        <div role="alert" className="grid gap-3">
          <p className="text-warn font-semibold">{common.stale.title}</p>
          <p>{common.stale.text}</p>
          <Difference
            label={common.stale.title}
            before={readable({ template: theirs.record.string, parameters: {}, model: theirs.record.model })}
            after={text(draft)}
          />
          <div className="flex justify-end gap-2">
            <Button
              onClick={() => {
                onClose();
                change({ version: theirs.record.prompt_version });
                void queries.invalidateQueries({ queryKey: ['prompts'] });
              }}
            >
              {common.stale.theirs}
            </Button>
            <Button
              kind="primary"
              busy={save.isPending}
              onClick={() => {
                setTheirs(undefined);
                save.mutate(theirs.version);
              }}
            >
              {common.stale.over}
            </Button>
          </div>
        </div>
      ) : (
        <>
          <SaveDifference before={before} draft={draft} />
          <Field label={texts.description}>
            {(control) => (
              <Input
                {...control}
                maxLength={500}
                value={note}
                onChange={({ target }) => setNote(target.value)}
              />
            )}
          </Field>
          {may('prompts.publish') && (
            <Checkbox
              label={texts.makeDefaultToo}
              checked={isDefault}
              onChange={({ target }) => setDefault(target.checked)}
            />
          )}
          <DialogButtons
            onCancel={onClose}
            submit={texts.saveTitle(number)}
            onSubmit={() => save.mutate(etag)}
            busy={save.isPending}
          />
        </>
      )}
    </Dialog>
  );
}

/** What the new version changes; nothing while a field holds no JSON, which is told when it is saved. */
function SaveDifference({ before, draft }: Pick<SaveDialogProps, 'before' | 'draft'>) {
  const lines = (one: Draft): string => {
    const { string: template, parameters, model, tools } = versionOf(one, texts.fault);
    return readable({ template, model, parameters: { ...parameters, ...(tools.length > 0 && { tools }) } });
  };
  try {
    return <Difference label={texts.changes} before={lines(before)} after={lines(draft)} />;
  } catch {
    return null;
  }
}

interface RenameDialogProps extends OnePromptProps {
  readonly onClose: () => void;
}

/** Renames or moves a prompt. */
export function RenameDialog({ prompt, etag, onClose }: RenameDialogProps) {
  const [name, setName] = useState(prompt.name);
  const [collection, setCollection] = useState(prompt.collection_id);
  const queries = useQueryClient();
  const say = useToast();
  const save = useMutation({
    mutationFn: () =>
      dataOf(
        api.PUT('/prompts/{promptId}', {
          params: { path: { promptId: prompt.id } },
          body: {
            name,
            ...(collection !== prompt.collection_id && { collection_id: collection || 'default' }),
          },
          headers: etag === undefined ? {} : { 'if-match': etag },
        }),
      ),
    onSuccess: async () => {
      say({ text: texts.renamed, tone: 'good' });
      onClose();
      await queries.invalidateQueries({ queryKey: ['prompts'] });
    },
  });
  return (
    <Dialog open onOpenChange={(open) => !open && onClose()} title={texts.rename}>
      <form
        className="grid gap-4"
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate();
        }}
      >
        <Field label={texts.field.name} fault={save.error?.message}>
          {(control) => (
            <Input {...control} required value={name} onChange={({ target }) => setName(target.value)} />
          )}
        </Field>
        <CollectionField workspace={prompt.workspace_id} value={collection} onChange={setCollection} />
        <DialogButtons onCancel={onClose} busy={save.isPending} />
      </form>
    </Dialog>
  );
}
