import { useId, useState, type ReactNode } from 'react';
import { Link } from '@tanstack/react-router';
import { useMutation, useQuery } from '@tanstack/react-query';
import { Code2, Save, Trash2 } from 'lucide-react';
import { api, dataOf } from '@/api/client';
import { useSession } from '@/api/session';
import { classes } from '@/lib/classes';
import { count, duration, list, money } from '@/lib/format';
import { isObject } from '@/lib/json';
import { useWorkspaceNames } from '@/lib/names';
import type { Column, Run } from '@/pages/playground/columns';
import { type Message, sentMessages } from '@/pages/playground/messages';
import {
  codeOf,
  explainScope,
  hasParameters,
  hasVariables,
  parametersOf,
  type Request,
} from '@/pages/playground/requests';
import { ToolCalls } from '@/pages/playground/tool-calls';
import { playground as texts } from '@/texts/playground';
import { Button, IconButton } from '@/ui/button';
import { Dialog, DialogButtons } from '@/ui/dialog';
import { Checkbox, Field, Input, Select, Textarea } from '@/ui/fields';
import { CodeBlock } from '@/ui/small';
import { useToast } from '@/ui/toast';

/** Names to choose from. */
export interface Choices {
  readonly providers: readonly string[];
  readonly models: readonly string[];
  readonly configs: readonly (readonly [slug: string, name: string])[];
  readonly prompts: readonly (readonly [slug: string, name: string])[];
}

interface AnswerColumnProps {
  readonly number: number;
  readonly column: Column;
  readonly run: Run | undefined;
  readonly choices: Choices;
  readonly messages: readonly Message[];
  readonly request: Request;
  readonly tools: readonly unknown[];
  readonly onColumn: (values: Partial<Column>) => void;
  readonly onRemove?: (() => void) | undefined;
  /** Goes on with its answer; `results`: what its calls have got, each in its place. */
  readonly onUse: (answer: Run, results: readonly string[]) => void;
}

/** What answers in one column, its answer, and what it took. */
export function AnswerColumn(props: AnswerColumnProps) {
  const { number, column, run, choices, messages, request, tools, onColumn, onRemove, onUse } = props;
  const { may } = useSession();
  const [showsCode, setShowsCode] = useState(false);
  const [saving, setSaving] = useState<'prompt' | 'config'>();
  const providers = useId();
  const models = useId();
  const { kind } = column;
  const listed = kind === 'config' ? choices.configs : choices.prompts;
  const chosen = kind === 'config' ? column.config : column.prompt;
  const known = listed.some(([slug]) => slug === chosen) || chosen === '';
  return (
    <section
      aria-label={texts.column(number)}
      className="border-line bg-panel flex min-w-0 flex-col rounded-lg border"
    >
      <div className="border-line flex items-center gap-1 border-b px-3 py-1.5">
        <h2 className="grow font-semibold">{texts.column(number)}</h2>
        <IconButton label={texts.code} onClick={() => setShowsCode(true)}>
          <Code2 className="size-4" />
        </IconButton>
        {kind !== 'prompt' && may('prompts.create') && (
          <IconButton label={texts.savePrompt} onClick={() => setSaving('prompt')}>
            <Save className="size-4" />
          </IconButton>
        )}
        {onRemove !== undefined && (
          <IconButton label={texts.removeColumn} onClick={onRemove}>
            <Trash2 className="size-4" />
          </IconButton>
        )}
      </div>
      <div className="border-line grid grid-cols-2 gap-3 border-b p-3">
        <Field label={texts.kind} className="col-span-2">
          {(control) => (
            <Select
              {...control}
              value={kind}
              options={Object.entries(texts.kinds)}
              onChange={(event) => onColumn({ kind: event.target.value as Column['kind'] })}
            />
          )}
        </Field>
        {kind !== 'model' && (
          <Field label={texts[kind]} className="col-span-2">
            {(control) => (
              <Select
                {...control}
                value={chosen}
                options={[
                  ['', texts.none],
                  ...(known ? [] : [[chosen, chosen] as const]),
                  ...listed.map(([slug, name]) => [slug, `${name} (${slug})`] as const),
                ]}
                onChange={(event) => onColumn({ [kind]: event.target.value })}
              />
            )}
          </Field>
        )}
        {kind === 'model' && (
          <Field label={texts.provider}>
            {(control) => (
              <>
                <Input
                  {...control}
                  list={providers}
                  placeholder="@slug"
                  title={texts.providerHelp}
                  value={column.provider}
                  onChange={(event) => onColumn({ provider: event.target.value.trim() })}
                />
                <datalist id={providers}>
                  {choices.providers.map((one) => (
                    <option key={one} value={one} />
                  ))}
                </datalist>
              </>
            )}
          </Field>
        )}
        {kind !== 'prompt' && (
          <Field label={texts.model} className={kind === 'config' ? 'col-span-2' : ''}>
            {(control) => (
              <>
                <Input
                  {...control}
                  list={models}
                  value={column.model}
                  onChange={(event) => onColumn({ model: event.target.value.trim() })}
                />
                <datalist id={models}>
                  {choices.models.map((one) => (
                    <option key={one} value={one} />
                  ))}
                </datalist>
              </>
            )}
          </Field>
        )}
        {kind === 'prompt' && (
          <Field
            label={texts.variables}
            fault={hasVariables(column) ? undefined : texts.noObject}
            className="col-span-2"
          >
            {(control) => (
              <Textarea
                {...control}
                className="min-h-14 font-mono text-xs"
                value={column.variables}
                onChange={(event) => onColumn({ variables: event.target.value })}
              />
            )}
          </Field>
        )}
        <Field label={texts.temperature}>
          {(control) => (
            <Input
              {...control}
              type="number"
              min={0}
              max={2}
              step={0.1}
              value={column.temperature}
              onChange={(event) => onColumn({ temperature: event.target.value })}
            />
          )}
        </Field>
        <Field label={texts.maxTokens}>
          {(control) => (
            <Input
              {...control}
              type="number"
              min={1}
              step={1}
              value={column.maxTokens}
              onChange={(event) => onColumn({ maxTokens: event.target.value })}
            />
          )}
        </Field>
        <Field
          label={texts.parameters}
          help={texts.parametersHelp}
          fault={hasParameters(column) ? undefined : texts.noObject}
          className="col-span-2"
        >
          {(control) => (
            <Textarea
              {...control}
              spellCheck={false}
              rows={Math.min(10, column.parameters.split('\n').length)}
              className="min-h-8 font-mono text-xs"
              value={column.parameters}
              onChange={(event) => onColumn({ parameters: event.target.value })}
            />
          )}
        </Field>
        <Checkbox
          label={texts.stream}
          checked={column.stream}
          onChange={(event) => onColumn({ stream: event.target.checked })}
        />
        {may(explainScope) && (
          <Checkbox
            label={texts.explain}
            title={texts.explainHelp}
            checked={column.explain}
            onChange={(event) => onColumn({ explain: event.target.checked })}
          />
        )}
      </div>
      <Answer run={run} tools={tools} canGoOn={kind !== 'prompt'} onUse={onUse} />
      <Dialog
        open={showsCode}
        onOpenChange={setShowsCode}
        title={texts.code}
        description={texts.codeText}
        place="wide"
      >
        {(Object.keys(texts.languages) as (keyof typeof texts.languages)[]).map((language) => (
          <section key={language} aria-label={texts.languages[language]}>
            <h3 className="pb-1 font-medium">{texts.languages[language]}</h3>
            <CodeBlock text={codeOf(language, request)} className="max-h-48" />
          </section>
        ))}
      </Dialog>
      {kind === 'model' && may('configs.create') && (
        <div className="border-line border-t p-2 text-right">
          <Button kind="quiet" onClick={() => setSaving('config')}>
            {texts.saveConfig}
          </Button>
        </div>
      )}
      <SaveAs
        what={saving}
        column={column}
        messages={messages}
        tools={tools}
        onClose={() => setSaving(undefined)}
      />
    </section>
  );
}

interface AnswerProps extends Pick<AnswerColumnProps, 'run' | 'tools' | 'onUse'> {
  /** A saved prompt has messages of its own, to which no answer can be added. */
  readonly canGoOn: boolean;
}

function Answer({ run, tools, canGoOn, onUse }: AnswerProps) {
  const { may } = useSession();
  if (run === undefined) return <p className="text-soft p-3">{texts.notRun}</p>;
  const { state, text, calls, fault } = run;
  const ended = state !== 'waiting' && state !== 'running';
  return (
    <div className="flex min-h-32 grow flex-col" aria-busy={!ended}>
      <div className="grow p-3" role="region" aria-label={texts.answer}>
        {state === 'waiting' && (
          <p className="text-soft" role="status">
            {texts.waiting}…
          </p>
        )}
        {text !== '' && <p className="break-words whitespace-pre-wrap">{text}</p>}
        {calls.length > 0 && (
          <ToolCalls
            calls={calls}
            tools={tools}
            onAnswer={state === 'done' && canGoOn ? (results) => onUse(run, results) : undefined}
          />
        )}
        {state === 'stopped' && <p className="text-warn mt-2">{texts.stopped}</p>}
        {state === 'cut' && <p className="text-warn mt-2">{fault || texts.cut}</p>}
        {state === 'failed' && (
          <div role="alert" className="bg-bad-wash text-bad mt-2 rounded p-2 break-words">
            <p className="font-medium">{texts.failed(run.status)}</p>
            <p>{fault}</p>
          </div>
        )}
        {state === 'done' && text === '' && calls.length === 0 && <p className="text-soft">{texts.empty}</p>}
        {state === 'done' && text !== '' && calls.length === 0 && canGoOn && (
          <Button kind="quiet" className="mt-2 -ml-3" onClick={() => onUse(run, [])}>
            {texts.use}
          </Button>
        )}
      </div>
      <Facts run={run} ended={ended} seesLog={may('logs.list')} />
    </div>
  );
}

interface FactsProps {
  readonly run: Run;
  readonly ended: boolean;
  readonly seesLog: boolean;
}

/** How often the log is looked at for the entry of an answer, and how long in between, milliseconds. */
const mostLooks = 10;
const lookMs = 700;

/** What it took: from the answer itself, and from its log entry once that is there. */
function Facts({ run, ended, seesLog }: FactsProps) {
  const { traceId } = run;
  const entry = useQuery({
    queryKey: ['playground-log', traceId],
    queryFn: ({ signal }) =>
      dataOf(api.GET('/logs', { params: { query: { trace_id: traceId, page_size: 1 } }, signal })).then(
        ({ data }) => data[0] ?? null,
      ),
    enabled: ended && seesLog && traceId !== '',
    // The entry is stored a moment after the answer has ended.
    refetchInterval: ({ state }) =>
      state.data === null && state.dataUpdateCount < mostLooks ? lookMs : false,
    retry: false,
    staleTime: Infinity,
  });
  const metrics = entry.data?.metrics;
  const tokens = run.tokens ?? (metrics && [metrics.prompt_tokens, metrics.completion_tokens]);
  const by = [metrics?.provider ?? run.provider, metrics?.model || run.model].filter((one) => one !== '');
  const rows: readonly (readonly [string, ReactNode])[] = [
    [texts.facts.status, run.status === 0 ? '' : run.status],
    [texts.facts.firstByte, run.firstByteMs === undefined ? '' : duration(run.firstByteMs)],
    [texts.facts.total, run.totalMs === undefined ? '' : duration(run.totalMs)],
    [texts.facts.tokens, tokens === undefined ? '' : list(tokens.map(count))],
    [texts.facts.cost, metrics?.pricing === 'priced' ? money(metrics.cost) : ''],
    [texts.facts.answeredBy, by.join(' · ')],
    [
      texts.facts.log,
      entry.data ? (
        <Link to="/logs/$id" params={{ id: entry.data.id }} className="text-accent underline">
          {entry.data.id.slice(0, 8)}
        </Link>
      ) : (
        ''
      ),
    ],
  ];
  return (
    <dl className="border-line text-soft grid grid-cols-2 gap-x-4 gap-y-1 border-t p-3 text-xs tabular-nums">
      {rows
        .filter(([, value]) => value !== '')
        .map(([name, value]) => (
          <div key={name} className={classes('flex gap-2', name === texts.facts.answeredBy && 'col-span-2')}>
            <dt>{name}</dt>
            <dd className="text-ink min-w-0 truncate">{value}</dd>
          </div>
        ))}
    </dl>
  );
}

interface SaveAsProps {
  readonly what: 'prompt' | 'config' | undefined;
  readonly column: Column;
  readonly messages: readonly Message[];
  readonly tools: readonly unknown[];
  readonly onClose: () => void;
}

/** Keeps the conversation and its tools as a prompt, or the choice of the column as a config. */
function SaveAs({ what, column, messages, tools, onClose }: SaveAsProps) {
  const say = useToast();
  const workspaces = useWorkspaceNames();
  const [name, setName] = useState('');
  const [chosen, setWorkspace] = useState('');
  const [first = ''] = workspaces.keys();
  const workspace = chosen || first;
  const save = useMutation({
    mutationFn: async (): Promise<void> => {
      const place = workspace === '' ? {} : { workspace_id: workspace };
      const { model, provider } = column;
      const parameters = parametersOf(column);
      if (what === 'prompt') {
        const { tool_choice: choice, ...others } = parameters;
        await api.POST('/prompts', {
          body: {
            name,
            string: JSON.stringify(sentMessages(messages)),
            parameters: others,
            tools: tools.filter(isObject),
            ...((typeof choice === 'string' || isObject(choice)) && { tool_choice: choice }),
            ...(model !== '' && { model }),
            ...(provider.startsWith('@') && { virtual_key: provider.slice(1) }),
            ...place,
          },
        });
      } else {
        const override = { ...parameters, ...(model !== '' && { model }) };
        const config = {
          ...(provider !== '' && { provider }),
          ...(Object.keys(override).length > 0 && { override_params: override }),
        };
        await api.POST('/configs', { body: { name, config, ...place } });
      }
    },
    onSuccess() {
      say({ text: what === 'prompt' ? texts.savedPrompt : texts.savedConfig, tone: 'good' });
      setName('');
      onClose();
    },
  });
  return (
    <Dialog
      open={what !== undefined}
      onOpenChange={(open) => !open && onClose()}
      title={what === 'prompt' ? texts.savePrompt : texts.saveConfig}
    >
      <form
        className="grid gap-4"
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate();
        }}
      >
        <Field label={texts.saveName} fault={save.error instanceof Error ? save.error.message : undefined}>
          {(control) => (
            <Input
              {...control}
              required
              maxLength={255}
              value={name}
              onChange={(event) => setName(event.target.value)}
            />
          )}
        </Field>
        {workspaces.size > 0 && (
          <Field label={texts.workspace}>
            {(control) => (
              <Select
                {...control}
                value={workspace}
                options={[...workspaces]}
                onChange={(event) => setWorkspace(event.target.value)}
              />
            )}
          </Field>
        )}
        <DialogButtons onCancel={onClose} busy={save.isPending} />
      </form>
    </Dialog>
  );
}
