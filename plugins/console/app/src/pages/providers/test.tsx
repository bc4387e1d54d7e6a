import { useState } from 'react';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { KeyRound, Zap } from 'lucide-react';
import { api, ApiError, dataOf, send } from '@/api/client';
import { facts } from '@/api/facts';
import { useSession } from '@/api/session';
import { duration } from '@/lib/format';
import { common } from '@/texts/common';
import { providers as texts } from '@/texts/providers';
import { Button } from '@/ui/button';
import { Dialog, DialogButtons } from '@/ui/dialog';
import { Field, Input, Select } from '@/ui/fields';
import { Badge, Sentence } from '@/ui/small';
import { useToast } from '@/ui/toast';

interface TestProps {
  readonly name: string;
  /** Slugs of providers that can be asked. */
  readonly slugs: readonly string[];
  /** Models that are on; the first one is tried. */
  readonly models?: readonly string[];
}

/** A button that asks a provider one short question, as any client would. */
export function TestButton(props: TestProps) {
  const { may } = useSession();
  const [open, setOpen] = useState(false);
  if (!may('completions.write')) return null;
  return (
    <>
      <Button onClick={() => setOpen(true)}>
        <Zap className="size-4" />
        {texts.test.button}
      </Button>
      {open && <TestDialog {...props} onClose={() => setOpen(false)} />}
    </>
  );
}

function TestDialog({ name, slugs, models = [], onClose }: TestProps & { readonly onClose: () => void }) {
  const [chosen, setSlug] = useState<string>();
  const slug = chosen ?? slugs[0] ?? '';
  const [model, setModel] = useState(models[0] ?? '');
  const run = useMutation({
    mutationFn: async () => {
      const start = performance.now();
      const answer = await send('/chat/completions', {
        method: 'POST',
        headers: { 'content-type': 'application/json', [`${facts.prefix}-provider`]: `@${slug}` },
        body: JSON.stringify({
          ...{ model, max_tokens: 16 },
          messages: [{ role: 'user', content: texts.test.question }],
        }),
      });
      const said = (await answer.json()) as {
        readonly choices?: readonly { readonly message?: { readonly content?: unknown } }[];
      };
      const content = said.choices?.[0]?.message?.content;
      return {
        text: typeof content === 'string' ? content.slice(0, 500) : '',
        ms: performance.now() - start,
        requestId: answer.headers.get(`${facts.prefix}-request-id`),
      };
    },
  });
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={texts.test.title(name)}
      description={texts.test.intro}
    >
      {slugs.length === 0 ? (
        <p className="text-warn">{texts.test.none}</p>
      ) : (
        <form
          className="grid gap-3"
          onSubmit={(event) => {
            event.preventDefault();
            event.stopPropagation();
            run.mutate();
          }}
        >
          {slugs.length > 1 && (
            <Field label={texts.test.provider}>
              {(control) => (
                <Select
                  {...control}
                  value={slug}
                  options={slugs.map((one) => [one, `@${one}`] as const)}
                  onChange={({ target }) => setSlug(target.value)}
                />
              )}
            </Field>
          )}
          <Field label={texts.test.model} help={`@${slug}`}>
            {(control) => (
              <Input
                {...control}
                required
                autoFocus
                value={model}
                onChange={({ target }) => setModel(target.value)}
              />
            )}
          </Field>
          <div aria-live="polite" className="grid gap-2">
            {run.data !== undefined && (
              <>
                <p className="flex flex-wrap items-center gap-2">
                  <Badge tone="good">{texts.test.yes}</Badge>
                  <span className="text-soft">{texts.test.time(duration(run.data.ms))}</span>
                  {run.data.requestId !== null && (
                    <Link
                      to="/logs/$id"
                      params={{ id: run.data.requestId }}
                      className="text-accent underline"
                    >
                      {texts.test.log}
                    </Link>
                  )}
                </p>
                <p className="bg-raised rounded-md p-3 break-words">{run.data.text}</p>
              </>
            )}
            {run.error !== null && (
              <>
                <p>
                  <Badge tone="bad">{texts.test.no}</Badge>
                </p>
                <p role="alert" className="bg-bad-wash text-bad rounded-md p-3 break-words">
                  {run.error.message}
                </p>
              </>
            )}
          </div>
          <DialogButtons
            onCancel={onClose}
            cancel={common.action.close}
            submit={texts.test.run}
            busy={run.isPending}
          />
        </form>
      )}
    </Dialog>
  );
}

/** Slugs of the providers that use an integration. */
export function useSlugsOf(integrationId: string): readonly string[] {
  const { may } = useSession();
  const query = useQuery({
    queryKey: ['providers', 'choice'],
    enabled: may('providers.list'),
    queryFn: () => dataOf(api.GET('/providers', { params: { query: { page_size: 100 } } })),
  });
  const own = query.data?.data.filter(({ integration_id: id }) => id === integrationId) ?? [];
  return [...new Set(own.map(({ slug }) => slug))];
}

interface RotateProps {
  readonly name: string;
  /** Key of what is read again afterwards. */
  readonly reads: string;
  readonly masked: string;
  readonly scopes: readonly string[];
  readonly version: string | undefined;
  /** Stores the new secret and resolves to what is shown of it. */
  readonly store: (secret: string, headers: Readonly<Record<string, string>>) => Promise<string>;
}

/** A button that replaces a stored secret: the new one is written and never shown. */
export function RotateButton({ name, reads, masked, scopes, version, store }: RotateProps) {
  const { may } = useSession();
  const [open, setOpen] = useState(false);
  const [secret, setSecret] = useState('');
  const queries = useQueryClient();
  const say = useToast();
  const rotate = useMutation({
    mutationFn: () => store(secret, version === undefined ? {} : { 'if-match': version }),
    onSuccess: async (shown) => {
      setOpen(false);
      setSecret('');
      say({ text: texts.rotate.done(shown), tone: 'good' });
      await queries.invalidateQueries({ queryKey: [reads] });
    },
    // Somebody else changed it: what is stored now is shown, and the secret that was typed stays.
    onError: (error) => {
      if (error instanceof ApiError && error.status === 412)
        void queries.invalidateQueries({ queryKey: [reads] });
    },
  });
  if (!may(...scopes)) return null;
  const isStale = rotate.error instanceof ApiError && rotate.error.status === 412;
  return (
    <>
      <Button onClick={() => setOpen(true)}>
        <KeyRound className="size-4" />
        {texts.rotate.button}
      </Button>
      {open && (
        <Dialog
          open
          onOpenChange={(isOpen) => {
            setOpen(isOpen);
            setSecret('');
          }}
          title={texts.rotate.title(name)}
          description={texts.rotate.text}
        >
          <form
            className="grid gap-3"
            onSubmit={(event) => {
              event.preventDefault();
              event.stopPropagation();
              rotate.mutate();
            }}
          >
            <p>
              <Sentence
                text={texts.rotate.now}
                parts={[<code className="font-mono">{masked || texts.rotate.none}</code>]}
              />
            </p>
            <Field
              label={texts.rotate.field}
              fault={isStale ? common.stale.title : rotate.error?.message}
              help={texts.rotate.test}
            >
              {(control) => (
                <Input
                  {...control}
                  required
                  autoFocus
                  type="password"
                  autoComplete="new-password"
                  value={secret}
                  onChange={({ target }) => setSecret(target.value)}
                />
              )}
            </Field>
            <DialogButtons
              onCancel={() => setOpen(false)}
              submit={texts.rotate.action}
              busy={rotate.isPending}
              disabled={secret.trim() === ''}
            />
          </form>
        </Dialog>
      )}
    </>
  );
}
