import { useState } from 'react';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Plus, Trash2 } from 'lucide-react';
import { api, dataOf } from '@/api/client';
import type { operations } from '@/api/schema.gen';
import { useSession } from '@/api/session';
import { versioned } from '@/resource/declaration';
import { providers as texts } from '@/texts/providers';
import { Button, IconButton } from '@/ui/button';
import { type Columns, DataTable } from '@/ui/data-table';
import { Confirm, Dialog, DialogButtons } from '@/ui/dialog';
import { Field, Input, Switch } from '@/ui/fields';
import { Empty, Loaded } from '@/ui/states';
import { useToast } from '@/ui/toast';

export interface IntegrationTabProps {
  readonly id: string;
  readonly workspace: string | null;
  readonly editable: boolean;
}

type Listed = operations['integration_models.list']['responses'][200]['content']['application/json'];
type Model = Listed['models'][number];
type Update = NonNullable<
  operations['integration_models.update']['requestBody']
>['content']['application/json'];

/** Prices stand in cents for a token, and are shown in dollars for a million. */
const perMillion = 10_000;
const shownPrice = (cents: number | undefined): string =>
  cents === undefined ? '' : String(Number((cents * perMillion).toPrecision(12)));

/** The models of an integration: which ones are on, and their prices. */
export function Models({ id, workspace, editable }: IntegrationTabProps) {
  const { may } = useSession();
  const queries = useQueryClient();
  const say = useToast();
  const [asked, setAsked] = useState<Model | 'new'>();
  const [leaving, setLeaving] = useState<string>();
  const scope = workspace === null ? 'organisation_integrations.update' : 'workspace_integrations.update';
  const mayChange = editable && may(scope);
  const at = { path: { slug: id }, query: workspace === null ? {} : { workspace_id: workspace } };
  const key = ['integrations', 'models', id];
  const query = useQuery({
    queryKey: key,
    queryFn: () => versioned(api.GET('/integrations/{slug}/models', { params: at })),
  });
  const version = query.data?.version;
  const done = async (): Promise<void> => {
    await queries.invalidateQueries({ queryKey: ['integrations'] });
    say({ text: texts.models.saved, tone: 'good' });
  };
  const failed = (error: Error): void => {
    say({ text: error.message, tone: 'bad' });
    void queries.invalidateQueries({ queryKey: key });
  };
  const headers = version === undefined ? {} : { 'if-match': version };
  const save = useMutation({
    mutationFn: (body: Update) =>
      dataOf(api.PUT('/integrations/{slug}/models', { params: at, body, headers })),
    onSuccess: done,
    onError: failed,
  });
  const forget = useMutation({
    mutationFn: (slugs: string) =>
      dataOf(
        api.DELETE('/integrations/{slug}/models', {
          params: { path: at.path, query: { ...at.query, slugs } },
          headers,
        }),
      ),
    onSuccess: done,
    onError: failed,
  });
  const price = (model: Model, name: 'request_token' | 'response_token') => {
    const cents = model.pricing_config?.pay_as_you_go[name].price;
    return cents === undefined ? (
      <span className="text-soft">{texts.models.known}</span>
    ) : (
      <span className="tabular-nums">{shownPrice(cents)}</span>
    );
  };
  const columns: Columns<Model> = [
    {
      header: texts.models.column.model,
      cell: ({ row }) => <span className="font-mono text-xs">{row.original.slug}</span>,
    },
    {
      header: texts.models.column.on,
      cell: ({ row: { original } }) => (
        <Switch
          label=""
          aria-label={texts.models.on(original.slug)}
          disabled={!mayChange || save.isPending}
          checked={original.enabled}
          onSwitch={(on) => save.mutateAsync({ models: [{ slug: original.slug, enabled: on }] })}
        />
      ),
    },
    { header: texts.models.column.input, cell: ({ row }) => price(row.original, 'request_token') },
    { header: texts.models.column.output, cell: ({ row }) => price(row.original, 'response_token') },
    {
      id: 'actions',
      header: '',
      meta: { isActions: true },
      cell: ({ row: { original } }) =>
        mayChange && (
          <span className="flex justify-end gap-1">
            <Button
              kind="quiet"
              aria-label={texts.models.setPrice(original.slug)}
              onClick={() => setAsked(original)}
            >
              {texts.models.price}
            </Button>
            <IconButton label={texts.models.remove(original.slug)} onClick={() => setLeaving(original.slug)}>
              <Trash2 className="size-4" />
            </IconButton>
          </span>
        ),
    },
  ];
  return (
    <Loaded query={query}>
      {({ record: { models, allow_all_models: all } }) => (
        <div className="grid gap-4">
          <div>
            <Switch
              label={texts.models.all}
              disabled={!mayChange || save.isPending}
              checked={all}
              onSwitch={(on) => save.mutateAsync({ allow_all_models: on })}
            />
            <p className="text-soft pl-6 text-xs">{texts.models.allHelp}</p>
          </div>
          {models.length === 0 ? (
            <Empty title={texts.models.none} />
          ) : (
            <DataTable label={texts.tabs.models} columns={columns} rows={models} rowId={({ slug }) => slug} />
          )}
          {mayChange && (
            <div>
              <Button onClick={() => setAsked('new')}>
                <Plus className="size-4" />
                {texts.models.add}
              </Button>
            </div>
          )}
          <Confirm
            open={leaving !== undefined}
            onOpenChange={() => setLeaving(undefined)}
            title={texts.models.removeTitle(leaving ?? '')}
            text={texts.models.removeText}
            action={texts.models.removeAction}
            onConfirm={() => forget.mutateAsync(leaving ?? '')}
          />
          {asked !== undefined && (
            <ModelDialog
              model={asked === 'new' ? undefined : asked}
              onClose={() => setAsked(undefined)}
              onSave={async (body) => {
                await save.mutateAsync({ models: [body] });
                setAsked(undefined);
              }}
            />
          )}
        </div>
      )}
    </Loaded>
  );
}

interface ModelDialogProps {
  readonly model: Model | undefined;
  readonly onClose: () => void;
  readonly onSave: (model: NonNullable<Update['models']>[number]) => Promise<void>;
}

function ModelDialog({ model, onClose, onSave }: ModelDialogProps) {
  const prices = model?.pricing_config?.pay_as_you_go;
  const [slug, setSlug] = useState(model?.slug ?? '');
  const [input, setInput] = useState(shownPrice(prices?.request_token.price));
  const [output, setOutput] = useState(shownPrice(prices?.response_token.price));
  const save = useMutation({
    mutationFn: () =>
      onSave({
        ...{ slug: slug.trim(), enabled: model?.enabled ?? true },
        pricing_config:
          input === '' && output === ''
            ? null
            : {
                pay_as_you_go: {
                  request_token: { price: Number(input) / perMillion },
                  response_token: { price: Number(output) / perMillion },
                },
              },
      }),
  });
  const price = (label: string, value: string, onChange: (value: string) => void, help?: string) => (
    <Field label={label} help={help}>
      {(control) => (
        <Input
          {...control}
          type="number"
          min={0}
          step="any"
          value={value}
          onChange={({ target }) => onChange(target.value)}
        />
      )}
    </Field>
  );
  return (
    <Dialog open onOpenChange={(open) => !open && onClose()} title={model?.slug ?? texts.models.add}>
      <form
        className="grid gap-4"
        onSubmit={(event) => {
          event.preventDefault();
          event.stopPropagation();
          save.mutate();
        }}
      >
        {model === undefined && (
          <Field label={texts.models.slug}>
            {(control) => (
              <Input
                {...control}
                required
                autoFocus
                value={slug}
                onChange={({ target }) => setSlug(target.value)}
              />
            )}
          </Field>
        )}
        {price(texts.models.inputPrice, input, setInput)}
        {price(texts.models.outputPrice, output, setOutput, texts.models.pricesHelp)}
        {save.error !== null && (
          <p role="alert" className="text-bad break-words">
            {save.error.message}
          </p>
        )}
        <DialogButtons onCancel={onClose} busy={save.isPending} />
      </form>
    </Dialog>
  );
}

/** The workspaces that may use an integration of the organisation. */
export function Access({ id, workspace, editable }: IntegrationTabProps) {
  const { may } = useSession();
  const queries = useQueryClient();
  const say = useToast();
  const key = ['integrations', 'workspaces', id];
  const at = { path: { slug: id } };
  const query = useQuery({
    queryKey: key,
    enabled: workspace === null,
    queryFn: async () => {
      const [access, all] = await Promise.all([
        versioned(api.GET('/integrations/{slug}/workspaces', { params: at })),
        dataOf(api.GET('/workspaces', { params: { query: { page_size: 100 } } })),
      ]);
      return { access, all: all.data };
    },
  });
  const version = query.data?.access.version;
  const save = useMutation({
    mutationFn: (
      body: NonNullable<
        operations['integration_workspaces.update']['requestBody']
      >['content']['application/json'],
    ) =>
      dataOf(
        api.PUT('/integrations/{slug}/workspaces', {
          ...{ params: at, body },
          headers: version === undefined ? {} : { 'if-match': version },
        }),
      ),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ['integrations'] });
      await queries.invalidateQueries({ queryKey: ['providers'] });
      say({ text: texts.workspaces.saved, tone: 'good' });
    },
    onError: (error) => {
      say({ text: error.message, tone: 'bad' });
      void queries.invalidateQueries({ queryKey: key });
    },
  });
  if (workspace !== null) return <p className="text-soft">{texts.workspaces.own}</p>;
  const mayChange = editable && may('organisation_integrations.update');
  return (
    <Loaded query={query}>
      {({ access: { record }, all }) => {
        const every = record.global_workspace_access;
        return (
          <div className="grid gap-4">
            <p className="text-soft">{texts.workspaces.intro}</p>
            <Switch
              label={texts.workspaces.every}
              disabled={!mayChange || save.isPending}
              checked={every.enabled}
              onSwitch={(on) =>
                save.mutateAsync({
                  global_workspace_access: {
                    enabled: on,
                    usage_limits: every.usage_limits,
                    rate_limits: every.rate_limits,
                  },
                })
              }
            />
            <ul className="border-line divide-line divide-y rounded-md border">
              {all.map(({ id: one, name }) => {
                const own = record.workspaces.find((found) => found.id === one);
                return (
                  <li key={one} className="flex items-center gap-3 px-3 py-2">
                    <Switch
                      label={name}
                      aria-label={texts.workspaces.on(name)}
                      className="grow"
                      disabled={!mayChange || save.isPending}
                      checked={own?.enabled ?? every.enabled}
                      onSwitch={(on) =>
                        save.mutateAsync({
                          workspaces: [
                            {
                              ...{ id: one, enabled: on },
                              ...(own && { usage_limits: own.usage_limits, rate_limits: own.rate_limits }),
                            },
                          ],
                        })
                      }
                    />
                  </li>
                );
              })}
            </ul>
          </div>
        );
      }}
    </Loaded>
  );
}
