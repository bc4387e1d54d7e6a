import { useCallback, useEffect, useMemo, useRef, useState } from 'react';
import { useLocation } from '@tanstack/react-router';
import { useQuery } from '@tanstack/react-query';
import { MessageSquarePlus, Play, Plus, Square } from 'lucide-react';
import { api, dataOf, json } from '@/api/client';
import { useCaller, useSession } from '@/api/session';
import { textOf, useAddress } from '@/lib/address';
import { isObject } from '@/lib/json';
import { keep, keeperOf, keptText } from '@/lib/kept';
import type { LogDetail } from '@/pages/logs/timings';
import { AnswerColumn, type Choices } from '@/pages/playground/answer-column';
import { type Column, firstColumn, type Run } from '@/pages/playground/columns';
import { ConversationEditor } from '@/pages/playground/conversation-editor';
import { endedRun, historyEntry, type Kept, mostColumns, readKept, writeKept } from '@/pages/playground/kept';
import { conversationOf, firstMessages, isSaid, type Message, withAnswer } from '@/pages/playground/messages';
import {
  explainScope,
  hasParameters,
  hasVariables,
  requestOf,
  runRequest,
} from '@/pages/playground/requests';
import { toolsOf } from '@/pages/playground/tools';
import { useKinds } from '@/pages/providers/settings';
import { playground as texts } from '@/texts/playground';
import { Button } from '@/ui/button';
import { Page } from '@/ui/page';
import { useToast } from '@/ui/toast';

interface Side {
  readonly id: number;
  readonly column: Column;
  readonly run?: Run | undefined;
}

/** One conversation, answered in one to four columns. */
export default function Playground() {
  const { search, change: changeAddress } = useAddress();
  const { may } = useSession();
  const say = useToast();
  const log = textOf(search['log']);
  const config = textOf(search['config']);
  const prompt = textOf(search['prompt']);
  const mayExplain = may(explainScope);
  const { kept, remember } = useKept((log ?? config ?? prompt) !== undefined);
  const [messages, setMessages] = useState(kept?.messages ?? firstMessages);
  const [tools, setTools] = useState(kept?.tools ?? '');
  const [left, setLeft] = useState(kept?.left ?? 0);
  const next = useRef(mostColumns);
  const [sides, setSides] = useState<readonly Side[]>(
    kept?.sides.map(({ column, run }, id) => ({
      ...{ id, run },
      column: { ...column, explain: column.explain && mayExplain },
    })) ?? [
      {
        id: 0,
        column: {
          ...firstColumn,
          ...(config !== undefined && { kind: 'config' as const, config }),
          ...(prompt !== undefined && { kind: 'prompt' as const, prompt }),
        },
      },
    ],
  );
  remember({ messages, tools, left, sides: sides.map(({ column, run }) => ({ column, run })) });
  const running = useRef(new Map<number, AbortController>());
  const choices = useChoices();
  const replay = useReplay(log);
  const told = useMemo(() => toolsOf(tools), [tools]);
  // The log entry whose conversation stands here already.
  const taken = useRef(kept && log);

  useEffect(() => {
    if (!replay.found || taken.current === log) return;
    taken.current = log;
    const { messages: before, tools: used, column } = replay.found;
    setMessages(before.length === 0 ? firstMessages : before);
    setTools(used);
    setLeft(0);
    setSides((all) =>
      all.map((side, index) =>
        index > 0 ? side : { ...side, column: { ...side.column, ...column, explain: mayExplain } },
      ),
    );
  }, [replay.found, mayExplain, log]);
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
        void runRequest(requestOf(column, said, told.list), control.signal, (run) => {
          // Of an answer that is gone, nothing comes back.
          if (running.current.get(id) !== control) return;
          setSides((all) => all.map((one) => (one.id === id ? { ...one, run } : one)));
        });
      }
    },
    [busy, sides, told],
  );
  const stop = (): void => running.current.forEach((one) => one.abort());
  const isBegun =
    left > 0 || messages.length > 1 || messages.some(isSaid) || sides.some(({ run }) => run !== undefined);
  const first = useRef<HTMLTextAreaElement>(null);
  const begin = (): void => {
    stop();
    running.current.clear();
    setMessages(firstMessages);
    setLeft(0);
    setSides(sides.map(({ id, column }) => ({ id, column })));
    if (log !== undefined) changeAddress({ log: undefined }, { replace: true });
    // The button, which had the focus, has nothing more to do.
    first.current?.focus();
    say({
      text: texts.emptied,
      undo() {
        setMessages(messages);
        setLeft(left);
        setSides((all) =>
          all.map((side) => {
            const run = sides.find(({ id }) => id === side.id)?.run;
            return { ...side, run: run && endedRun(run) };
          }),
        );
      },
    });
  };

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
          <Button disabled={!isBegun} onClick={begin}>
            <MessageSquarePlus className="size-4" />
            {texts.newConversation}
          </Button>
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
        left={left}
        first={first}
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

/**
 * What the caller has kept in this tab, and a function that is told what is to be kept when the page is left. A page
 * that is opened with a link begins with what the link names, unless it is the one that was left.
 */
function useKept(isLinked: boolean) {
  const of = keeperOf(useCaller());
  const entry = useLocation({ select: ({ state }) => historyEntry(state) });
  const [kept] = useState(() => {
    const found = readKept(keptText(of));
    return isLinked && found?.entry !== entry ? undefined : found;
  });
  const write = useRef<() => void>(() => undefined);
  useEffect(() => {
    const listen = (): void => write.current();
    const listenHidden = (): void => {
      if (document.visibilityState === 'hidden') listen();
    };
    addEventListener('pagehide', listen);
    document.addEventListener('visibilitychange', listenHidden);
    return () => {
      listen();
      removeEventListener('pagehide', listen);
      document.removeEventListener('visibilitychange', listenHidden);
    };
  }, []);
  const remember = (now: Omit<Kept, 'entry'>): void => {
    write.current = () => keep(of, writeKept({ ...now, entry }));
  };
  return { kept, remember };
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
