import { useState } from 'react';
import { useMutation, useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Play } from 'lucide-react';
import { api, ask, dataOf, errorOf } from '@/api/client';
import { facts } from '@/api/facts';
import { useCaller, useSession } from '@/api/session';
import { duration, list } from '@/lib/format';
import type { Guardrail } from '@/pages/guardrails/checks';
import { guardrails as texts } from '@/texts/guardrails';
import { Button } from '@/ui/button';
import { Field, Select, Textarea } from '@/ui/fields';
import { Badge, CodeBlock, type Tone } from '@/ui/small';
import { Empty, Failed, Loaded } from '@/ui/states';

interface ShownCheck {
  readonly id: string;
  readonly verdict: boolean;
  readonly data?: unknown;
  readonly error?: { readonly message: string } | null;
  readonly execution_time: number;
  readonly transformed: boolean;
  readonly skipped: boolean;
}

interface HookResults {
  readonly before_request_hooks?: readonly { readonly checks: readonly ShownCheck[] }[];
  readonly after_request_hooks?: readonly { readonly checks: readonly ShownCheck[] }[];
}

interface Tried {
  readonly status: number;
  readonly checks: readonly ShownCheck[];
  readonly answer: string;
}

type Phase = keyof typeof texts.try.phases;

/** Sends a text through a stored guardrail to the mock provider, and shows the verdict of each check. */
export function TryGuardrail({ guardrail }: { readonly guardrail: Guardrail }) {
  const caller = useCaller();
  const [text, setText] = useState<string>(texts.try.sample);
  const [phase, setPhase] = useState<Phase>('input');
  const run = useMutation({
    mutationFn: async (): Promise<Tried> => {
      const { workspace_id: workspace, checks, actions, slug } = guardrail;
      // By its name where requests of the caller see it; of another workspace as it is written, without its secrets.
      const isSeen = workspace === null || workspace === caller.workspace_id;
      const one = isSeen
        ? slug
        : { checks: checks.map(({ name: _, ...check }) => check), ...{ deny: actions.deny } };
      const config = { provider: 'mock', [`${phase}_guardrails`]: [one] };
      const answer = await ask('/chat/completions', {
        method: 'POST',
        headers: { 'content-type': 'application/json', [`${facts.prefix}-config`]: JSON.stringify(config) },
        body: JSON.stringify({ model: 'mock-gpt', messages: [{ role: 'user', content: text }] }),
      });
      if (!answer.ok && answer.status !== 446) throw await errorOf(answer);
      const said = (await answer.json()) as {
        readonly hook_results?: HookResults;
        readonly choices?: readonly { readonly message?: { readonly content?: unknown } }[];
      };
      const results = said.hook_results ?? {};
      const lists = [...(results.before_request_hooks ?? []), ...(results.after_request_hooks ?? [])];
      const content = said.choices?.[0]?.message?.content;
      return {
        ...{ status: answer.status, checks: lists.flatMap(({ checks: own }) => own) },
        answer: typeof content === 'string' ? content : '',
      };
    },
  });
  return (
    <div className="grid gap-4">
      <p className="text-soft">{texts.try.intro}</p>
      <Field label={texts.try.text}>
        {(control) => <Textarea {...control} value={text} onChange={({ target }) => setText(target.value)} />}
      </Field>
      <div className="flex items-end gap-3">
        <Field label={texts.try.phase}>
          {(control) => (
            <Select
              {...control}
              value={phase}
              options={Object.entries(texts.try.phases)}
              onChange={({ target }) => setPhase(target.value as Phase)}
            />
          )}
        </Field>
        <Button kind="primary" busy={run.isPending} disabled={text === ''} onClick={() => run.mutate()}>
          <Play className="size-4" />
          {texts.try.run}
        </Button>
      </div>
      <div aria-live="polite" className="grid gap-4">
        {run.error !== null && <Failed error={run.error} />}
        {run.data !== undefined && (
          <Verdicts tried={run.data} phase={phase} isAsync={guardrail.actions.async} />
        )}
      </div>
    </div>
  );
}

interface VerdictsProps {
  readonly tried: Tried;
  readonly phase: Phase;
  readonly isAsync: boolean;
}

function Verdicts({ tried: { status, checks, answer }, phase, isAsync }: VerdictsProps) {
  const isRefused = status === 446;
  const refused = phase === 'input' ? texts.try.refused : texts.try.refusedAnswer;
  const result = isRefused ? refused : status === 246 ? texts.try.marked : texts.try.through;
  const look = isRefused
    ? 'bg-bad-wash text-bad'
    : status === 246
      ? 'bg-warn-wash text-warn'
      : 'bg-good-wash text-good';
  if (checks.length === 0)
    return <p className="text-soft">{isAsync ? texts.try.async : texts.try.noVerdict}</p>;
  return (
    <>
      <p className={`rounded-md p-3 font-medium ${look}`}>{result}</p>
      <ul className="grid gap-2">
        {checks.map((check, index) => {
          const [tone, word] = verdictOf(check);
          const why = explanationOf(check);
          return (
            <li key={index} className="border-line grid gap-1 rounded-md border p-3">
              <span className="flex flex-wrap items-center gap-2">
                <Badge tone={tone}>{word}</Badge>
                <span className="font-mono text-xs font-semibold">{check.id}</span>
                {check.transformed && <Badge tone="accent">{texts.try.changed}</Badge>}
                <span className="text-soft text-xs">{texts.try.time(duration(check.execution_time))}</span>
              </span>
              {why.text !== '' && <p className="break-words">{why.text}</p>}
              {why.rest.map(([name, value]) => (
                <p key={name} className="text-soft font-mono text-xs break-words">
                  {name}: {wordsOf(value)}
                </p>
              ))}
            </li>
          );
        })}
      </ul>
      {answer !== '' && (
        <section className="grid gap-1">
          <h4 className="font-semibold">{texts.try.after}</h4>
          <CodeBlock text={answer} />
        </section>
      )}
    </>
  );
}

/** A value of a verdict in words: lists with commas, members behind their names. */
function wordsOf(value: unknown): string {
  if (Array.isArray(value)) return list(value.map(wordsOf));
  if (typeof value !== 'object' || value === null) return String(value);
  return list(Object.entries(value).map(([name, inner]) => `${name} ${wordsOf(inner)}`));
}

function verdictOf({ verdict, skipped, error }: ShownCheck): readonly [tone: Tone, word: string] {
  if (error != null) return ['warn', texts.try.broke];
  if (skipped) return ['neutral', texts.try.skipped];
  return verdict ? ['good', texts.try.passed] : ['bad', texts.try.failed];
}

function explanationOf({ data, error }: ShownCheck): {
  readonly text: string;
  readonly rest: readonly (readonly [string, unknown])[];
} {
  if (error != null) return { text: error.message, rest: [] };
  if (typeof data === 'string') return { text: data, rest: [] };
  if (typeof data !== 'object' || data === null) return { text: '', rest: [] };
  const { explanation, ...rest } = data as Readonly<Record<string, unknown>>;
  return { text: typeof explanation === 'string' ? explanation : '', rest: Object.entries(rest) };
}

const mostConfigs = 100;
const names = [
  'input_guardrails',
  'output_guardrails',
  'before_request_hooks',
  'after_request_hooks',
] as const;

/** The lists of a config, at any depth, that name the guardrail. */
function phasesIn(node: unknown, isMeant: (name: unknown) => boolean): ReadonlySet<Phase> {
  const found = new Set<Phase>();
  const look = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return;
    for (const [name, one] of Object.entries(value)) {
      const isList = (names as readonly string[]).includes(name) || name.endsWith('_mutators');
      if (isList && Array.isArray(one) && one.some(isMeant))
        found.add(name.startsWith('output') || name.startsWith('after') ? 'output' : 'input');
      look(one);
    }
  };
  look(node);
  return found;
}

interface Use {
  readonly kind: 'workspace' | 'config';
  readonly name: string;
  readonly id: string;
  readonly phases: readonly Phase[];
}

/** The workspaces and configs that name a guardrail. */
export function UsedBy({ guardrail }: { readonly guardrail: Guardrail }) {
  const { may } = useSession();
  const query = useQuery({
    queryKey: ['guardrails', 'used', guardrail.id],
    queryFn: async (): Promise<{ readonly uses: readonly Use[]; readonly isCut: boolean }> => {
      const isMeant = (name: unknown): boolean => name === guardrail.id || name === guardrail.slug;
      const uses: Use[] = [];
      if (may('workspaces.list')) {
        const { data } = await dataOf(
          api.GET('/admin/workspaces', { params: { query: { page_size: 100 } } }),
        );
        for (const { id, name, defaults } of data) {
          const phases = phasesIn(defaults, isMeant);
          if (phases.size > 0) uses.push({ kind: 'workspace', name, id, phases: [...phases] });
        }
      }
      if (!may('configs.list') || !may('configs.read')) return { uses, isCut: false };
      const query = {
        page_size: mostConfigs,
        ...(guardrail.workspace_id !== null && { workspace_id: guardrail.workspace_id }),
      };
      const { data, total } = await dataOf(api.GET('/configs', { params: { query } }));
      for (const { id, name, slug } of data) {
        const one = await dataOf(api.GET('/configs/{slug}', { params: { path: { slug: id } } }));
        const config: unknown = 'config' in one ? one.config : one;
        const phases = phasesIn(typeof config === 'string' ? JSON.parse(config) : config, isMeant);
        if (phases.size > 0) uses.push({ kind: 'config', name, id: slug, phases: [...phases] });
      }
      return { uses, isCut: total > data.length };
    },
  });
  return (
    <div className="grid gap-4">
      <p className="text-soft">{texts.used.intro}</p>
      <Loaded query={query}>
        {({ uses, isCut }) => (
          <>
            {uses.length === 0 && <Empty title={texts.used.none} />}
            <ul className="grid gap-2">
              {uses.map(({ kind, name, id, phases }) => (
                <li key={`${kind} ${id}`} className="flex items-center gap-2">
                  <Badge>{texts.used[kind]}</Badge>
                  {kind === 'workspace' ? (
                    <Link to="/workspaces" search={{ open: id } as object} className="text-accent underline">
                      {name}
                    </Link>
                  ) : (
                    <span className="font-medium">{name}</span>
                  )}
                  <span className="text-soft">{list(phases.map((phase) => texts.used[phase]))}</span>
                </li>
              ))}
            </ul>
            {isCut && <p className="text-warn">{texts.used.partial}</p>}
          </>
        )}
      </Loaded>
      <section className="grid gap-1">
        <h4 className="font-semibold">{texts.used.copy}</h4>
        <CodeBlock text={JSON.stringify({ input_guardrails: [guardrail.slug] }, null, 2)} />
      </section>
    </div>
  );
}
