import { useState } from 'react';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { GitCompareArrows, RotateCcw } from 'lucide-react';
import { api, dataOf } from '@/api/client';
import { useSession } from '@/api/session';
import { useAddressTexts } from '@/lib/address';
import { type Prompt, readable } from '@/pages/prompts/template';
import { prompts as texts } from '@/texts/prompts';
import { Button } from '@/ui/button';
import { type Columns, DataTable } from '@/ui/data-table';
import { Difference } from '@/ui/difference';
import { Confirm } from '@/ui/dialog';
import { Field, Select } from '@/ui/fields';
import { Card } from '@/ui/page';
import { Badge, Time } from '@/ui/small';
import { Loaded } from '@/ui/states';
import { useToast } from '@/ui/toast';

async function readVersions(promptId: string) {
  return dataOf(api.GET('/prompts/{promptId}/versions', { params: { path: { promptId } } }));
}
type Version = Awaited<ReturnType<typeof readVersions>>[number];

/** All versions of a prompt, newest first. */
export function useVersions(promptId: string | undefined) {
  return useQuery({
    queryKey: ['prompts', 'versions', promptId],
    enabled: promptId !== undefined,
    queryFn: () => readVersions(promptId ?? ''),
  });
}

/** Makes a version the default; the message that says so takes it back. */
function usePublish(prompt: Pick<Prompt, 'id'>) {
  const queries = useQueryClient();
  const say = useToast();
  const publish = async (version: number): Promise<void> => {
    await dataOf(
      api.PUT('/prompts/{promptId}/makeDefault', {
        params: { path: { promptId: prompt.id } },
        body: { version },
      }),
    );
    await queries.invalidateQueries({ queryKey: ['prompts'] });
  };
  return async (version: number, before: number | undefined): Promise<void> => {
    await publish(version);
    say({
      ...{ text: texts.published(version), tone: 'good' },
      ...(before !== undefined && before !== version && { undo: () => void publish(before) }),
    });
  };
}

/** The versions of a prompt: what is different, which one is served, and the labels. */
export function Versions({ prompt }: { readonly prompt: Prompt }) {
  const [, change] = useAddressTexts();
  const { may } = useSession();
  const versions = useVersions(prompt.id);
  const publish = usePublish(prompt);
  const [asked, setAsked] = useState<Version>();
  const labels = useQuery({
    queryKey: ['labels', 'choice', prompt.workspace_id],
    enabled: may('prompts.list'),
    queryFn: () =>
      dataOf(
        api.GET('/labels', { params: { query: { workspace_id: prompt.workspace_id, page_size: 100 } } }),
      ),
  });
  const all = versions.data ?? [];
  const served = all.find(({ status }) => status === 'active');
  const isBack = (version: Version): boolean =>
    served !== undefined && version.prompt_version < served.prompt_version;
  const columns: Columns<Version> = [
    {
      header: texts.column2.version,
      cell: ({ row: { original } }) => (
        <span className="flex items-center gap-2">
          <button
            type="button"
            className="text-accent underline"
            onClick={() => change({ version: original.prompt_version, tab: undefined })}
          >
            {texts.version(original.prompt_version)}
          </button>
          {original.status === 'active' && <Badge tone="good">{texts.isDefault}</Badge>}
        </span>
      ),
    },
    {
      header: texts.column2.description,
      cell: ({ row }) =>
        row.original.prompt_description === '' ? (
          <span className="text-soft">{texts.noDescription}</span>
        ) : (
          row.original.prompt_description
        ),
    },
    {
      header: texts.column2.label,
      meta: { isState: true },
      cell: ({ row }) => (
        <LabelChoice prompt={prompt} version={row.original} labels={labels.data?.data ?? []} />
      ),
    },
    { header: texts.column2.made, cell: ({ row }) => <Time iso={row.original.created_at} ago /> },
    {
      id: 'actions',
      header: texts.column2.actions,
      meta: { isActions: true },
      cell: ({ row: { original } }) =>
        original.status === 'active' ? null : (
          <span className="flex justify-end gap-1.5">
            <Button
              onClick={() => change({ from: served?.prompt_version ?? 1, to: original.prompt_version })}
            >
              <GitCompareArrows className="size-4" />
              {texts.compare}
            </Button>
            {may('prompts.publish') && (
              <Button onClick={() => setAsked(original)}>
                {isBack(original) && <RotateCcw className="size-4" />}
                {isBack(original) ? texts.rollBack : texts.makeDefault}
              </Button>
            )}
          </span>
        ),
    },
  ];
  const title = (version: Version): string =>
    isBack(version) ? texts.rollBackTo(version.prompt_version) : texts.makeDefaultTo(version.prompt_version);
  return (
    <div className="grid gap-4">
      <Card title={texts.tabs.versions}>
        <p className="text-soft px-4 pt-3">{texts.versionsText}</p>
        <Loaded query={versions}>
          {(rows) => (
            <DataTable label={texts.tabs.versions} columns={columns} rows={rows} rowId={({ id }) => id} />
          )}
        </Loaded>
      </Card>
      {all.length > 1 && <Compare versions={all} served={served} />}
      {asked !== undefined && (
        <Confirm
          open
          onOpenChange={(open) => !open && setAsked(undefined)}
          title={title(asked)}
          text={
            <div className="grid gap-3">
              <p>{texts.publishText(prompt.slug)}</p>
              <Difference
                label={texts.compareTitle(served?.prompt_version ?? 0, asked.prompt_version)}
                before={served === undefined ? '' : lines(served)}
                after={lines(asked)}
              />
            </div>
          }
          action={isBack(asked) ? texts.rollBack : texts.makeDefault}
          onConfirm={() => publish(asked.prompt_version, served?.prompt_version)}
        />
      )}
    </div>
  );
}

function lines({ prompt_template: { string, parameters, model } }: Version): string {
  return readable({ template: string, parameters, model });
}

interface CompareProps {
  readonly versions: readonly Version[];
  readonly served: Version | undefined;
}

/** Two versions as one text: `?from` and `?to` in the address. */
function Compare({ versions, served }: CompareProps) {
  const [address, change] = useAddressTexts();
  const numbered = (text: string | undefined): Version | undefined =>
    versions.find(({ prompt_version: number }) => String(number) === text);
  const to = numbered(address['to']) ?? versions[0];
  const earlier = versions.find(({ prompt_version: number }) => number < (to?.prompt_version ?? 0));
  const from = numbered(address['from']) ?? (served !== to ? served : earlier);
  const options = versions.map(
    ({ prompt_version: number }) => [String(number), texts.version(number)] as const,
  );
  if (from === undefined || to === undefined) return null;
  const title = texts.compareTitle(from.prompt_version, to.prompt_version);
  const choice = (label: string, name: 'from' | 'to', value: Version) => (
    <Field label={label} className="w-44">
      {(control) => (
        <Select
          {...control}
          options={options}
          value={String(value.prompt_version)}
          onChange={({ target }) => change({ [name]: Number(target.value) }, { replace: true })}
        />
      )}
    </Field>
  );
  return (
    <Card title={title}>
      <div className="grid gap-3 p-4">
        <div className="flex gap-3">
          {choice(texts.compareFrom, 'from', from)}
          {choice(texts.compareWith, 'to', to)}
        </div>
        <Difference label={title} before={lines(from)} after={lines(to)} />
      </div>
    </Card>
  );
}

interface LabelChoiceProps {
  readonly prompt: Prompt;
  readonly version: Version;
  readonly labels: readonly { readonly id: string; readonly name: string }[];
}

function LabelChoice({ prompt, version, labels }: LabelChoiceProps) {
  const { may } = useSession();
  const queries = useQueryClient();
  const say = useToast();
  const set = useMutation({
    mutationFn: async (labelId: string) => {
      await dataOf(
        api.PUT('/prompts/{promptId}/versions/{versionId}', {
          params: { path: { promptId: prompt.id, versionId: version.id } },
          body: { label_id: labelId === '' ? null : labelId },
        }),
      );
      await queries.invalidateQueries({ queryKey: ['prompts'] });
    },
    onSuccess: () => say({ text: texts.labelled, tone: 'good' }),
    onError: (error) => say({ text: error.message, tone: 'bad' }),
  });
  const name = labels.find(({ id }) => id === version.label_id)?.name;
  if (!may('prompts.update') || labels.length === 0)
    return name === undefined ? <span className="text-soft">–</span> : <Badge tone="accent">{name}</Badge>;
  return (
    <Select
      aria-label={texts.labelOf(version.prompt_version)}
      className="h-7 w-auto max-w-40"
      disabled={set.isPending}
      value={version.label_id ?? ''}
      options={[['', texts.noLabel], ...labels.map((label) => [label.id, label.name] as const)]}
      onChange={({ target }) => set.mutate(target.value)}
    />
  );
}
