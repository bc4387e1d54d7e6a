import { useState } from 'react';
import { useMutation } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Play } from 'lucide-react';
import { api, ApiError, dataOf, send } from '@/api/client';
import { facts } from '@/api/facts';
import { useSession } from '@/api/session';
import { count, duration, money } from '@/lib/format';
import { type Prompt, valuesOf, variablesOf } from '@/pages/prompts/template';
import { prompts as texts } from '@/texts/prompts';
import { Button } from '@/ui/button';
import { Field, Textarea } from '@/ui/fields';
import { Card } from '@/ui/page';
import { CodeBlock } from '@/ui/small';
import { Failed } from '@/ui/states';

/** What the page reads of a chat completion, or a completion. */
interface Completion {
  readonly choices?: readonly {
    readonly message?: { readonly content?: unknown; readonly tool_calls?: unknown };
    readonly text?: string;
  }[];
  readonly usage?: { readonly prompt_tokens?: number; readonly completion_tokens?: number };
}

interface Ran {
  readonly text: string;
  readonly calls: string;
  readonly ms: number;
  readonly usage: Completion['usage'];
  readonly requestId: string | null;
  readonly dollars: number | undefined;
}

/** The cost of a request, as soon as its log can be read. */
async function costOf(requestId: string): Promise<number | undefined> {
  for (let attempt = 0; attempt < 8; attempt += 1) {
    try {
      const log = await dataOf(api.GET('/logs/{id}', { params: { path: { id: requestId } } }));
      return log.metrics.cost;
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 404) return undefined;
      await new Promise((resolve) => setTimeout(resolve, 250 * (attempt + 1)));
    }
  }
  return undefined;
}

interface TryProps {
  readonly prompt: Prompt;
  /** The editor holds something else than the version that is tried. */
  readonly dirty: boolean;
}

/** Renders a saved version with values, or sends it. */
export function Try({ prompt, dirty }: TryProps) {
  const { may } = useSession();
  const [values, setValues] = useState<Readonly<Record<string, string>>>({});
  const { variables, sections } = variablesOf(prompt.string);
  const reference = `${prompt.slug}@${prompt.prompt_version}`;
  const render = useMutation({
    mutationFn: async () => {
      const body = { variables: valuesOf(values, sections) };
      const { data } = await dataOf(
        api.POST('/prompts/{promptId}/render', { params: { path: { promptId: reference } }, body }),
      );
      return data;
    },
  });
  const run = useMutation({
    mutationFn: async (): Promise<Ran> => {
      const start = performance.now();
      const answer = await send(`/prompts/${reference}/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ variables: valuesOf(values, sections), stream: false }),
      });
      const said = (await answer.json()) as Completion;
      const ms = performance.now() - start;
      const [choice] = said.choices ?? [];
      const content = choice?.message?.content ?? choice?.text ?? '';
      const calls = choice?.message?.tool_calls;
      const requestId = answer.headers.get(`${facts.prefix}-request-id`);
      return {
        text: typeof content === 'string' ? content : JSON.stringify(content, null, 2),
        calls: calls === undefined ? '' : JSON.stringify(calls, null, 2),
        ...{ ms, usage: said.usage, requestId },
        dollars: requestId !== null && may('logs.view') ? await costOf(requestId) : undefined,
      };
    },
  });
  const field = (name: string, help?: string) => (
    <Field key={name} label={name} {...(help !== undefined && { help })}>
      {(control) => (
        <Textarea
          {...control}
          className="min-h-9"
          rows={1}
          value={values[name] ?? ''}
          onChange={({ target }) => setValues((all) => ({ ...all, [name]: target.value }))}
        />
      )}
    </Field>
  );
  return (
    <div className="grid items-start gap-4 lg:grid-cols-[22rem_minmax(0,1fr)]">
      <Card title={texts.try.values}>
        <div className="grid gap-3 p-4">
          <p className="text-soft">{texts.try.intro(prompt.prompt_version)}</p>
          {dirty && <p className="text-warn bg-warn-wash rounded p-2">{texts.try.dirty}</p>}
          {variables.length + sections.length === 0 && <p className="text-soft">{texts.try.none}</p>}
          {variables.map((name) => field(name))}
          {sections.map((name) => field(name, texts.try.section))}
          <div className="flex gap-2">
            {may('completions.write') && (
              <Button kind="primary" busy={run.isPending} onClick={() => run.mutate()}>
                <Play className="size-4" />
                {run.data === undefined ? texts.try.run : texts.try.again}
              </Button>
            )}
            {may('prompts.render') && (
              <Button busy={render.isPending} onClick={() => render.mutate()}>
                {texts.try.render}
              </Button>
            )}
          </div>
        </div>
      </Card>
      <div className="grid gap-4">
        <Card title={texts.try.answer}>
          <div className="grid gap-3 p-4" aria-live="polite">
            {run.error !== null && <Failed error={run.error} />}
            {run.data === undefined && run.error === null && <p className="text-soft">{texts.try.nothing}</p>}
            {run.data !== undefined && <Answer ran={run.data} />}
          </div>
        </Card>
        {(render.data !== undefined || render.error !== null) && (
          <Card title={texts.try.rendered}>
            <div className="p-4">
              {render.error === null ? (
                <Rendered body={render.data ?? {}} />
              ) : (
                <Failed error={render.error} />
              )}
            </div>
          </Card>
        )}
      </div>
    </div>
  );
}

function Answer({ ran }: { readonly ran: Ran }) {
  const { usage } = ran;
  return (
    <>
      {ran.text === '' ? (
        <p className="text-soft">{texts.try.noText}</p>
      ) : (
        <p className="break-words whitespace-pre-wrap">{ran.text}</p>
      )}
      {ran.calls !== '' && (
        <>
          <h3 className="font-semibold">{texts.try.calls}</h3>
          <CodeBlock text={ran.calls} />
        </>
      )}
      <div className="text-soft border-line flex flex-wrap gap-x-6 gap-y-1 border-t pt-3">
        <dl className="flex flex-wrap gap-x-6 gap-y-1">
          <Fact name={texts.try.time} value={duration(ran.ms)} />
          {usage?.prompt_tokens !== undefined && (
            <Fact
              name={texts.try.tokens}
              value={texts.try.tokensOf(usage.prompt_tokens, usage.completion_tokens ?? 0)}
            />
          )}
          {ran.dollars !== undefined && <Fact name={texts.try.cost} value={money(ran.dollars)} />}
        </dl>
        {ran.requestId !== null && ran.dollars !== undefined && (
          <Link to="/logs/$id" params={{ id: ran.requestId }} className="text-accent underline">
            {texts.try.log}
          </Link>
        )}
      </div>
    </>
  );
}

function Fact({ name, value }: { readonly name: string; readonly value: string }) {
  return (
    <div className="flex gap-1.5">
      <dt>{name}</dt>
      <dd className="text-ink tabular-nums">{value}</dd>
    </div>
  );
}

/** A rendered body: its messages as a conversation, the rest as parameters. */
function Rendered({ body }: { readonly body: Readonly<Record<string, unknown>> }) {
  const { messages, ...rest } = body;
  const list = Array.isArray(messages) ? (messages as readonly { role?: unknown; content?: unknown }[]) : [];
  return (
    <div className="grid gap-3">
      {list.map(({ role, content }, index) => (
        <div key={index} className="border-line rounded-md border p-3">
          <p className="text-soft pb-1 text-xs font-medium">{String(role)}</p>
          <p className="break-words whitespace-pre-wrap">
            {typeof content === 'string' ? content : JSON.stringify(content, null, 2)}
          </p>
        </div>
      ))}
      {Object.entries(rest).map(([name, value]) => (
        <p key={name} className="font-mono text-xs break-words">
          <span className="text-soft">{name}: </span>
          {typeof value === 'number'
            ? count(value)
            : typeof value === 'string'
              ? value
              : JSON.stringify(value)}
        </p>
      ))}
    </div>
  );
}
