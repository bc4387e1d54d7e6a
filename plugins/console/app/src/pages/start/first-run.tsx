import { useState, type FormEvent, type ReactNode } from 'react';
import { useMutation, useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Check } from 'lucide-react';
import { api, apiAddress, dataOf, send } from '@/api/client';
import { facts } from '@/api/facts';
import { useCaller } from '@/api/session';
import { classes } from '@/lib/classes';
import { snippetsFor } from '@/lib/snippets';
import type { LogEntry } from '@/pages/logs/use-logs';
import { start as texts } from '@/texts/start';
import { Button } from '@/ui/button';
import { Field, Input, Select } from '@/ui/fields';
import { Card } from '@/ui/page';
import { Code, CodeBlock } from '@/ui/small';

/** The provider and model of the first request. */
interface Choice {
  /** Value of the header `{prefix}-provider`. */
  readonly provider: string;
  readonly model: string;
}

/** Providers that people begin with, and a model that each of them has; all others are among the integrations. */
const usual: readonly (readonly [id: string, name: string, model: string])[] = [
  ['openai', 'OpenAI', 'gpt-5-mini'],
  ['anthropic', 'Anthropic', 'claude-haiku-4-5'],
  ['google', 'Google Gemini', 'gemini-2.5-flash'],
  ['mistral-ai', 'Mistral', 'mistral-small-latest'],
  ['groq', 'Groq', 'llama-3.3-70b-versatile'],
  ['deepseek', 'DeepSeek', 'deepseek-chat'],
  ['openrouter', 'OpenRouter', 'openai/gpt-5-mini'],
];

const everyMs = 1000;

/** The key that the second step has made. */
interface MadeKey {
  readonly id: string;
  readonly key: string;
}

/** Leads an empty gateway to its first request, and shows it arrive. */
export function FirstRun({ titled = true }: { readonly titled?: boolean }) {
  const [choice, setChoice] = useState<Choice>();
  const [key, setKey] = useState<MadeKey>();
  const step = choice === undefined ? 0 : key === undefined ? 1 : 2;
  return (
    <div className={classes('grid w-full max-w-3xl gap-4', titled && 'mx-auto')}>
      {titled && (
        <div>
          <h2 className="text-lg font-semibold">{texts.title}</h2>
          <p className="text-soft">{texts.intro}</p>
        </div>
      )}
      <Step number={1} title={texts.steps.provider} state={step === 0 ? 'now' : 'done'}>
        <ChooseProvider onChoice={setChoice} />
      </Step>
      <Step number={2} title={texts.steps.key} state={step === 1 ? 'now' : step > 1 ? 'done' : 'later'}>
        <MakeKey onKey={setKey} />
      </Step>
      <Step number={3} title={texts.steps.send} state={step === 2 ? 'now' : 'later'}>
        {choice !== undefined && key !== undefined && <SendRequest choice={choice} made={key} />}
      </Step>
    </div>
  );
}

interface StepProps {
  readonly number: number;
  readonly title: string;
  readonly state: 'later' | 'now' | 'done';
  readonly children: ReactNode;
}

function Step({ number, title, state, children }: StepProps) {
  return (
    <Card className={classes(state === 'later' && 'opacity-70')}>
      <div className="flex items-center gap-3 px-4 py-3" aria-current={state === 'now' ? 'step' : undefined}>
        <span
          aria-hidden
          className={classes(
            'grid size-6 place-items-center rounded-full border text-xs font-semibold',
            state === 'done' ? 'bg-good-wash text-good border-transparent' : 'border-line',
          )}
        >
          {state === 'done' ? <Check className="size-4" /> : number}
        </span>
        <h3 className="grow font-semibold">{title}</h3>
        {state === 'done' && <span className="text-good text-xs">{texts.done}</span>}
      </div>
      {state === 'now' && <div className="border-line grid gap-4 border-t p-4">{children}</div>}
    </Card>
  );
}

function ChooseProvider({ onChoice }: { readonly onChoice: (choice: Choice) => void }) {
  const [own, setOwn] = useState(false);
  const [provider, setProvider] = useState('openai');
  const [secret, setSecret] = useState('');
  const [, name = provider, model = ''] = usual.find(([id]) => id === provider) ?? [];
  const { workspace_id } = useCaller();
  const keep = useMutation({
    mutationFn: () =>
      dataOf(
        api.POST('/virtual-keys', {
          body: { name: texts.provider.keyName(name), provider, key: secret.trim(), workspace_id },
        }),
      ),
    onSuccess: (made) => onChoice({ provider: `@${made.slug}`, model }),
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    keep.mutate();
  };
  return (
    <>
      <fieldset className="grid gap-2 sm:grid-cols-2">
        <legend className="sr-only">{texts.steps.provider}</legend>
        {[
          [false, texts.provider.mock, texts.provider.mockHelp] as const,
          [true, texts.provider.own, texts.provider.ownHelp] as const,
        ].map(([value, title, help]) => (
          <label
            key={title}
            className={classes(
              'border-line flex gap-2 rounded-md border p-3',
              own === value && 'border-accent bg-accent-wash',
            )}
          >
            <input
              type="radio"
              name="who"
              className="accent-accent mt-1"
              checked={own === value}
              onChange={() => setOwn(value)}
            />
            <span>
              <span className="block font-medium">{title}</span>
              <span className="text-soft block text-xs">{help}</span>
            </span>
          </label>
        ))}
      </fieldset>
      {own ? (
        <form onSubmit={submit} className="grid gap-3">
          <Field label={texts.provider.which}>
            {(control) => (
              <Select
                {...control}
                value={provider}
                onChange={(event) => setProvider(event.target.value)}
                options={usual.map(([id, text]) => [id, text] as const)}
              />
            )}
          </Field>
          <Field label={texts.provider.secret} fault={keep.error?.message}>
            {(control) => (
              <Input
                {...control}
                type="password"
                autoComplete="off"
                required
                value={secret}
                onChange={(event) => setSecret(event.target.value)}
              />
            )}
          </Field>
          <div>
            <Button kind="primary" type="submit" busy={keep.isPending}>
              {texts.provider.save}
            </Button>
          </div>
        </form>
      ) : (
        <div>
          <Button kind="primary" onClick={() => onChoice({ provider: 'mock', model: 'mock-gpt' })}>
            {texts.provider.go}
          </Button>
        </div>
      )}
    </>
  );
}

function MakeKey({ onKey }: { readonly onKey: (made: MadeKey) => void }) {
  const { workspace_id } = useCaller();
  const [name, setName] = useState<string>(texts.key.initial);
  const make = useMutation({
    mutationFn: () =>
      dataOf(
        api.POST('/api-keys/workspace/service', {
          body: { name, workspace_id, scopes: ['completions.write', 'logs.view', 'models.list'] },
        }),
      ),
    onSuccess: ({ id, key }) => onKey({ id, key }),
  });
  return (
    <form
      className="grid gap-3"
      onSubmit={(event) => {
        event.preventDefault();
        make.mutate();
      }}
    >
      <Field label={texts.key.name} help={texts.key.text} fault={make.error?.message}>
        {(control) => (
          <Input {...control} required value={name} onChange={(event) => setName(event.target.value)} />
        )}
      </Field>
      <div>
        <Button kind="primary" type="submit" busy={make.isPending}>
          {texts.key.make}
        </Button>
      </div>
    </form>
  );
}

function SendRequest({ choice, made }: { readonly choice: Choice; readonly made: MadeKey }) {
  const [begun] = useState(() => new Date().toISOString());
  const [language, setLanguage] = useState<keyof ReturnType<typeof snippetsFor>>('curl');
  const snippets = snippetsFor({ ...choice, base: apiAddress, secret: made.key });
  const arrived = useQuery({
    queryKey: ['first-request', begun, made.id],
    // Others may send requests meanwhile: only those of this key are the user's own.
    queryFn: ({ signal }) =>
      dataOf(
        api.GET('/logs', {
          params: { query: { page_size: 1, time_of_generation_min: begun, api_key_ids: made.id } },
          signal,
        }),
      ),
    // After one that failed, another one may follow.
    refetchInterval: ({ state }) => (state.data?.data[0]?.metrics.is_success === true ? false : everyMs),
  });
  const here = useMutation({
    mutationFn: () =>
      send('/chat/completions', {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          [`${facts.prefix}-provider`]: choice.provider,
          [`${facts.prefix}-api-key`]: made.key,
        },
        body: JSON.stringify({
          model: choice.model,
          messages: [{ role: 'user', content: texts.send.hello }],
        }),
      }),
  });
  const first = arrived.data?.data[0];
  return (
    <>
      <div className="grid gap-1">
        <Code text={made.key} />
        <p className="text-warn text-xs">{texts.key.shown}</p>
      </div>
      <p>{texts.send.text}</p>
      <div role="group" aria-label={texts.steps.send} className="flex gap-1">
        {(Object.keys(snippets) as (keyof typeof snippets)[]).map((one) => (
          <Button
            key={one}
            aria-pressed={one === language}
            kind={one === language ? 'primary' : 'plain'}
            onClick={() => setLanguage(one)}
          >
            {one}
          </Button>
        ))}
      </div>
      <CodeBlock text={snippets[language]} />
      <div aria-live="polite">
        {first?.metrics.is_success === false && <FailedRequest entry={first} />}
        {first?.metrics.is_success !== true ? (
          <div className="flex flex-wrap items-center gap-3">
            <span className="text-soft">{texts.send.waiting}</span>
            <Button busy={here.isPending} onClick={() => here.mutate()}>
              {texts.send.here}
            </Button>
            {here.error !== null && first === undefined && (
              <span className="text-bad">{here.error.message}</span>
            )}
          </div>
        ) : (
          <div className="bg-good-wash text-good flex flex-wrap items-center gap-4 rounded-md p-3 font-medium">
            {texts.send.arrived}
            <Link to="/logs/$id" params={{ id: first.id }} className="underline">
              {texts.send.open}
            </Link>
            <Link to="/" reloadDocument className="underline">
              {texts.send.home}
            </Link>
          </div>
        )}
      </div>
    </>
  );
}

/** A request that came, and was not served: why, and what mends it. */
function FailedRequest({ entry }: { readonly entry: LogEntry }) {
  const { error_code: code, error_message: message } = entry.metrics;
  const { status } = entry.response;
  const { failed, fix } = texts.send;
  const mend = status === 401 || status === 403 ? fix.refused : status === 404 ? fix.unknown : fix.other;
  return (
    <div className="bg-bad-wash mb-3 grid gap-1 rounded-md p-3">
      <p className="text-bad font-medium">{failed(status)}</p>
      <p className="break-words">{message || code}</p>
      <p>
        {status === 429 ? fix.tooMany : mend}{' '}
        <Link to="/logs/$id" params={{ id: entry.id }} className="underline">
          {texts.send.open}
        </Link>
      </p>
    </div>
  );
}
