import { useCallback, useEffect, useMemo, useRef, useState } from 'react';
import { useQuery } from '@tanstack/react-query';
import { Play, Plus, Square } from 'lucide-react';
import { api, dataOf, json } from '@/api/client';
import { useSession } from '@/api/session';
import { textOf, useAddress } from '@/lib/address';
import { isObject } from '@/lib/json';
import type { LogDetail } from '@/pages/logs/timings';
import { AnswerColumn, type Choices } from '@/pages/playground/answer-column';
import { ConversationEditor } from '@/pages/playground/conversation-editor';
import { conversationOf, firstMessages, isSaid, type Message, withAnswer } from '@/pages/playground/messages';
import {
  type Column,
  explainScope,
  firstColumn,
  hasParameters,
  hasVariables,
  requestOf,
  type Run,
  runRequest,
} from '@/pages/playground/requests';
import { toolsOf } from '@/pages/playground/tools';
import { useKinds } from '@/pages/providers/settings';
import { playground as texts } from '@/texts/playground';
import { Button } from '@/ui/button';
import { Page } from '@/ui/page';

const mostColumns = 4;

interface Side {
  readonly id: number;
  readonly column: Column;
  readonly run?: Run | undefined;
}

/** One conversation, answered in one to four columns. */
export default function Playground() {
  const { search } = useAddress();
  const { may } = useSession();
  const log = textOf(search['log']);
  const config = textOf(search['config']);
  const prompt = textOf(search['prompt']);
  const [messages, setMessages] = useState(firstMessages);
  const [tools, setTools] = useState('');
  const next = useRef(1);
  const [sides, setSides] = useState<readonly Side[]>([
    {
      id: 0,
      column: {
        ...firstColumn,
        ...(config !== undefined && { kind: 'config' as const, config }),
        ...(prompt !== undefined && { kind: 'prompt' as const, prompt }),
      },
    },
  ]);
  const running = useRef(new Map<number, AbortController>());
  const choices = useChoices();
  const replay = useReplay(log);
  const told = useMemo(() => toolsOf(tools), [tools]);
  const mayExplain = may(explainScope);

  useEffect(() => {
    if (!replay.found) return;
    const { messages: before, tools: used, column } = replay.found;
    setMessages(before.length === 0 ? firstMessages : before);
    setTools(used);
    setSides((all) =>
      all.map((side, index) =>
        index > 0 ? side : { ...side, column: { ...side.column, ...column, explain: mayExplain } },
      ),
    );
  }, [replay.found, mayExplain]);
  useEffect(() => {
    const all = running.current;
    return () => all.forEach((one) => one.abort());
  }, []);

  const change = (id: number, values: Partial<Side>): void =>
    setSides((all) => all.map((one) => (one.id === id ? { ...one, ...values } : one)));
  const busy = sides.some(({ run }) => run?.state === 'waiting' || run?.state === 'running');
  const ready =
    told.faults.length === 0 &&
    sides.every(({ column }) => hasVariables(column) && hasParameters(column)) &&
    (messages.some(isSaid) || sides.every(({ column }) => column.kind === 'prompt'));

  const start = useCallback(
    (said: readonly Message[]): void => {
      if (busy) return;
      for (const { id, column } of sides) {
        const control = new AbortController();
        running.current.set(id, control);
        void runRequest(requestOf(column, said, told.list), control.signal, (run) =>
          setSides((all) => all.map((one) => (one.id === id ? { ...one, run } : one))),
        );
      }
    },
    [busy, sides, told],
  );
  const stop = (): void => running.current.forEach((one) => one.abort());

  useEffect(() => {
    const listen = (event: KeyboardEvent): void => {
      if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      if (ready) start(messages);
    };
    addEventListener('keydown', listen);
    return () => removeEventListener('keydown', listen);
  }, [start, ready, messages]);

  return (
    <Page
      title={texts.title}
      intro={texts.intro}
      actions={
        <>
          {sides.length < mostColumns && (
            <Button
              onClick={() =>
                setSides((all) => [...all, { id: next.current++, column: all.at(-1)?.column ?? firstColumn }])
              }
            >
              <Plus className="size-4" />
              {texts.addColumn}
            </Button>
          )}
          {busy ? (
            <Button kind="danger" onClick={stop}>
              <Square className="size-4" />
              {texts.stop}
            </Button>
          ) : (
            <Button kind="primary" disabled={!ready} onClick={() => start(messages)} title={texts.runHint}>
              <Play className="size-4" />
              {texts.run}
            </Button>
          )}
        </>
      }
    >
      {log !== undefined && replay.isKnown && (
        <p className="bg-raised text-soft rounded p-2" role="status">
          {replay.found ? texts.replay : texts.noReplay}{' '}
          {replay.found?.isOtherWire === true && texts.otherWire}
        </p>
      )}
      <ConversationEditor
        messages={messages}
        tools={tools}
        faults={told.faults}
        onMessages={setMessages}
        onTools={setTools}
      />
      <div
        className="grid gap-4"
        style={{ gridTemplateColumns: `repeat(auto-fit, minmax(min(100%, 20rem), 1fr))` }}
      >
        {sides.map(({ id, column, run }, index) => (
          <AnswerColumn
            key={id}
            number={index + 1}
            column={column}
            run={run}
            choices={choices}
            messages={messages}
            request={requestOf(column, messages, told.list)}
            tools={told.list}
            onColumn={(values) => change(id, { column: { ...column, ...values } })}
            onRemove={
              sides.length === 1
                ? undefined
                : () => {
                    running.current.get(id)?.abort();
                    running.current.delete(id);
                    setSides((all) => all.filter((one) => one.id !== id));
                  }
            }
            onUse={(answer, results) => {
              const next = withAnswer(messages, answer, results);
              setMessages(next);
              // With the results of its tools, the model goes on by itself.
              if (results.length > 0) start(next);
            }}
          />
        ))}
      </div>
    </Page>
  );
}

/** Names to choose from, as far as the caller may see them. */
function useChoices(): Choices {
  const { may } = useSession();
  const models = useQuery({
    queryKey: ['playground-models'],
    queryFn: ({ signal }) => json<{ data?: readonly { id?: unknown }[] }>('/models', { signal }),
    enabled: may('completions.write'),
    retry: false,
    staleTime: 60_000,
  });
  const configs = useQuery({
    queryKey: ['playground-configs'],
    queryFn: ({ signal }) => dataOf(api.GET('/configs', { params: { query: { page_size: 100 } }, signal })),
    enabled: may('configs.list'),
    retry: false,
  });
  const providers = useQuery({
    queryKey: ['providers', 'choice'],
    queryFn: () => dataOf(api.GET('/providers', { params: { query: { page_size: 100 } } })),
    enabled: may('providers.list'),
    retry: false,
  });
  const kinds = useKinds(
    may('organisation_integrations.list', 'workspace_integrations.list', 'virtual_keys.list'),
  );
  const prompts = useQuery({
    queryKey: ['playground-prompts'],
    queryFn: ({ signal }) => dataOf(api.GET('/prompts', { params: { query: { page_size: 100 } }, signal })),
    enabled: may('prompts.list'),
    retry: false,
  });
  return useMemo(
    () => ({
      providers: [
        ...new Set((providers.data?.data ?? []).map(({ slug }) => `@${slug}`)),
        ...(kinds.data ?? []).map(({ id }) => id),
      ],
      models: (models.data?.data ?? [])
        .flatMap(({ id }) => (typeof id === 'string' ? [id] : []))
        .slice(0, 500),
      configs: (configs.data?.data ?? []).map(({ slug, name }) => [slug, name] as const),
      prompts: (prompts.data?.data ?? []).map(({ slug, name }) => [slug, name] as const),
    }),
    [providers.data, kinds.data, models.data, configs.data, prompts.data],
  );
}

/** The conversation of a log entry, for another run of it. */
function useReplay(id: string | undefined) {
  const query = useQuery({
    queryKey: ['replay', id],
    queryFn: ({ signal }) => dataOf(api.GET('/logs/{id}', { params: { path: { id: id ?? '' } }, signal })),
    enabled: id !== undefined,
    staleTime: Infinity,
    retry: false,
  });
  const found = useMemo(() => {
    if (query.data === undefined) return undefined;
    const { request, log_format: format, metrics } = query.data;
    const told = conversationOf(request.body, format);
    const column = columnOf(metrics, request.body);
    const isOtherWire = !hasChatParameters(metrics);
    return told.messages.length === 0 && column.kind !== 'prompt'
      ? undefined
      : { ...told, column, isOtherWire };
  }, [query.data]);
  return { found, isKnown: query.data !== undefined || query.error !== null };
}

type Asked = Pick<
  LogDetail['metrics'],
  'config' | 'endpoint' | 'prompt' | 'provider' | 'model_requested' | 'model'
>;

/** Whether the parameters of a logged request are those of Chat Completions, which the playground sends. */
function hasChatParameters({ endpoint, prompt }: Asked): boolean {
  return prompt !== '' || endpoint === 'chat.completions';
}

/** The provider, model, config and parameters of a logged request, to be asked again. */
function columnOf(metrics: Asked, kept: unknown): Partial<Column> {
  const { config, prompt, provider, model_requested: asked, model } = metrics;
  const body = isObject(kept) ? kept : {};
  const { stream, stream_options: _, ...sent } = body;
  const { variables } = sent;
  if (prompt !== '' && isObject(variables))
    return {
      ...{ kind: 'prompt', prompt, variables: JSON.stringify(variables, null, 2), stream: stream === true },
      ...parameterFields(sent, ['variables']),
    };
  const own = {
    model: asked || model,
    ...(hasChatParameters(metrics)
      ? { stream: stream === true, ...parameterFields(sent, ['model', 'messages', 'tools']) }
      : foreignFields(body)),
  };
  return config === '' || config === 'inline' ? { ...own, provider } : { ...own, kind: 'config', config };
}

/** Parameters of Chat Completions in the fields that show them, without those that the page shows elsewhere. */
function parameterFields(
  sent: Readonly<Record<string, unknown>>,
  elsewhere: readonly string[],
): Partial<Column> {
  const others = Object.fromEntries(Object.entries(sent).filter(([name]) => !elsewhere.includes(name)));
  const taken = (name: string): string => {
    const value = others[name];
    if (typeof value !== 'number') return '';
    delete others[name];
    return String(value);
  };
  return {
    ...{ temperature: taken('temperature'), maxTokens: taken('max_tokens') },
    parameters: Object.keys(others).length === 0 ? '' : JSON.stringify(others, null, 2),
  };
}

/** Temperature and most tokens of a request of Messages, Responses, `generateContent` or `Converse`. */
function foreignFields(body: Readonly<Record<string, unknown>>): Partial<Column> {
  const inner = body['generationConfig'] ?? body['inferenceConfig'];
  const from = isObject(inner) ? inner : body;
  const number = (...names: readonly string[]): string => {
    const found = names.map((name) => from[name]).find((value) => typeof value === 'number');
    return found === undefined ? '' : String(found);
  };
  return {
    temperature: number('temperature'),
    maxTokens: number('max_tokens', 'max_output_tokens', 'maxOutputTokens', 'maxTokens'),
  };
}
