import { useCallback, useEffect, useMemo, useRef, useState } from 'react';
import { useQuery } from '@tanstack/react-query';
import { Play, Plus, Square, Trash2 } from 'lucide-react';
import { api, dataOf, json } from '@/api/client';
import { useSession } from '@/api/session';
import { textOf, useAddress } from '@/lib/address';
import { AnswerColumn, type Choices } from '@/pages/playground/answer-column';
import {
  type Column,
  conversationOf,
  firstColumn,
  hasVariables,
  type Message,
  requestOf,
  type Role,
  type Run,
  runRequest,
  toolsOf,
} from '@/pages/playground/requests';
import { playground as texts } from '@/texts/playground';
import { Button, IconButton } from '@/ui/button';
import { Field, Select, Textarea } from '@/ui/fields';
import { Card, Page } from '@/ui/page';

const mostColumns = 4;
const mostMessages = 100;
const roles = Object.entries(texts.roles);
const first: readonly Message[] = [{ role: 'user', content: '' }];

interface Side {
  readonly id: number;
  readonly column: Column;
  readonly run?: Run | undefined;
}

/** One conversation, answered in one to four columns. */
export default function Playground() {
  const { search } = useAddress();
  const log = textOf(search['log']);
  const config = textOf(search['config']);
  const prompt = textOf(search['prompt']);
  const [messages, setMessages] = useState(first);
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
  const told = toolsOf(tools);

  useEffect(() => {
    if (!replay.found) return;
    const { messages: before, model, tools: used, config: slug, provider } = replay.found;
    setMessages(before);
    setTools(used);
    setSides((all) =>
      all.map((side, index) =>
        index > 0
          ? side
          : {
              ...side,
              column: {
                ...side.column,
                model,
                provider: slug === '' ? provider : '',
                ...(slug !== '' && { kind: 'config' as const, config: slug }),
              },
            },
      ),
    );
  }, [replay.found]);
  useEffect(() => {
    const all = running.current;
    return () => all.forEach((one) => one.abort());
  }, []);

  const change = (id: number, values: Partial<Side>): void =>
    setSides((all) => all.map((one) => (one.id === id ? { ...one, ...values } : one)));
  const busy = sides.some(({ run }) => run?.state === 'waiting' || run?.state === 'running');
  const ready =
    told !== undefined &&
    sides.every(({ column }) => hasVariables(column)) &&
    (messages.some(({ content }) => content !== '') || sides.every(({ column }) => column.kind === 'prompt'));

  const start = useCallback((): void => {
    if (!ready || busy) return;
    for (const { id, column } of sides) {
      const control = new AbortController();
      running.current.set(id, control);
      void runRequest(requestOf(column, messages, told), control.signal, (run) =>
        setSides((all) => all.map((one) => (one.id === id ? { ...one, run } : one))),
      );
    }
  }, [ready, busy, sides, messages, told]);
  const stop = (): void => running.current.forEach((one) => one.abort());

  useEffect(() => {
    const listen = (event: KeyboardEvent): void => {
      if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      start();
    };
    addEventListener('keydown', listen);
    return () => removeEventListener('keydown', listen);
  }, [start]);

  const setMessage = (index: number, values: Partial<Message>): void =>
    setMessages((all) => all.map((one, at) => (at === index ? { ...one, ...values } : one)));
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
            <Button kind="primary" disabled={!ready} onClick={start} title={texts.runHint}>
              <Play className="size-4" />
              {texts.run}
            </Button>
          )}
        </>
      }
    >
      {log !== undefined && replay.isKnown && (
        <p className="bg-raised text-soft rounded p-2" role="status">
          {replay.found ? texts.replay : texts.noReplay}
        </p>
      )}
      <Card title={texts.conversation}>
        <div className="grid gap-3 p-4">
          {messages.map(({ role, content }, index) => (
            <div key={index} className="grid grid-cols-[8rem_1fr_auto] items-start gap-2">
              <Select
                aria-label={`${texts.role} ${index + 1}`}
                value={role}
                options={roles}
                onChange={(event) => setMessage(index, { role: event.target.value as Role })}
              />
              <Textarea
                aria-label={`${texts.text} ${index + 1}`}
                rows={Math.min(10, Math.max(2, content.split('\n').length))}
                className="min-h-14"
                value={content}
                onChange={(event) => setMessage(index, { content: event.target.value })}
              />
              <IconButton
                label={texts.removeMessage}
                disabled={messages.length === 1}
                onClick={() => setMessages((all) => all.filter((_, at) => at !== index))}
              >
                <Trash2 className="size-4" />
              </IconButton>
            </div>
          ))}
          <div className="flex flex-wrap items-start gap-3">
            <Button
              disabled={messages.length >= mostMessages}
              onClick={() => setMessages((all) => [...all, { role: 'user', content: '' }])}
            >
              <Plus className="size-4" />
              {texts.addMessage}
            </Button>
            <details className="grow" open={tools !== '' || undefined}>
              <summary className="text-soft flex h-8 cursor-pointer items-center">{texts.tools}</summary>
              <Field
                label={texts.tools}
                help={texts.toolsHelp}
                fault={told === undefined ? texts.toolsFault : undefined}
              >
                {(control) => (
                  <Textarea
                    {...control}
                    className="font-mono text-xs"
                    value={tools}
                    onChange={(event) => setTools(event.target.value)}
                  />
                )}
              </Field>
            </details>
          </div>
        </div>
      </Card>
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
            request={requestOf(column, messages, told ?? [])}
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
            onUse={(text) =>
              setMessages((all) => [
                ...all.filter(({ content }) => content !== ''),
                { role: 'assistant', content: text },
                { role: 'user', content: '' },
              ])
            }
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
  const prompts = useQuery({
    queryKey: ['playground-prompts'],
    queryFn: ({ signal }) => dataOf(api.GET('/prompts', { params: { query: { page_size: 100 } }, signal })),
    enabled: may('prompts.list'),
    retry: false,
  });
  return useMemo(
    () => ({
      models: (models.data?.data ?? [])
        .flatMap(({ id }) => (typeof id === 'string' ? [id] : []))
        .slice(0, 500),
      configs: (configs.data?.data ?? []).map(({ slug, name }) => [slug, name] as const),
      prompts: (prompts.data?.data ?? []).map(({ slug, name }) => [slug, name] as const),
    }),
    [models.data, configs.data, prompts.data],
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
    const told = conversationOf(query.data?.request.body);
    if (told === undefined || query.data === undefined) return undefined;
    const { config, provider } = query.data.metrics;
    return { ...told, config: config === 'inline' ? '' : config, provider };
  }, [query.data]);
  return { found, isKnown: query.data !== undefined || query.error !== null };
}
