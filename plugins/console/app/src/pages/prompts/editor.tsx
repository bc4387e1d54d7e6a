import { useState } from 'react';
import { useQuery } from '@tanstack/react-query';
import { ArrowUp, Plus, Trash2 } from 'lucide-react';
import { api, dataOf } from '@/api/client';
import { useSession } from '@/api/session';
import { type Draft, messagesOf, templateOf, variablesOf } from '@/pages/prompts/template';
import { prompts as texts } from '@/texts/prompts';
import { Button, IconButton } from '@/ui/button';
import { Field, Input, Select, Textarea } from '@/ui/fields';
import { Card } from '@/ui/page';
import { Badge } from '@/ui/small';

interface EditorProps {
  readonly draft: Draft;
  readonly onChange: (draft: Draft) => void;
  readonly faults: Readonly<Partial<Record<keyof Draft, string>>>;
  readonly disabled: boolean;
}

/** The content of one version: messages and their variables at the left, the model and its parameters at the right. */
export function Editor({ draft, onChange, faults, disabled }: EditorProps) {
  return (
    <div className="grid items-start gap-4 lg:grid-cols-[minmax(0,1fr)_22rem]">
      <Template {...{ draft, onChange, faults, disabled }} />
      <Settings {...{ draft, onChange, faults, disabled }} />
    </div>
  );
}

function Template({ draft, onChange, faults, disabled }: EditorProps) {
  const { form, messages } = draft;
  const { variables, sections, partials } = variablesOf(
    form === 'text' ? draft.text : messages.map(({ content }) => content).join('\n'),
  );
  const isList = form === 'messages' || messagesOf(draft.text) !== undefined || draft.text.trim() === '';
  const change = (next: string): void => {
    if (next === 'text') {
      const [only] = messages;
      const isPlain = messages.length === 1 && only?.role === 'user';
      const isEmpty = messages.every(({ content }) => content === '');
      const text = isEmpty ? '' : isPlain ? only.content : JSON.stringify(messages, null, 2);
      onChange({ ...draft, form: 'text', text });
    } else
      onChange({
        ...draft,
        form: 'messages',
        messages: messagesOf(draft.text) ?? [{ role: 'user', content: draft.text }],
      });
  };
  return (
    <Card
      title={texts.field.messages}
      actions={
        <Select
          aria-label={texts.field.form}
          className="w-auto"
          disabled={disabled || !isList}
          value={form}
          options={[
            ['messages', texts.field.forms.messages],
            ['text', texts.field.forms.text],
          ]}
          onChange={({ target }) => change(target.value)}
        />
      }
    >
      <div className="grid gap-4 p-4">
        {form === 'messages' ? (
          <Messages {...{ draft, onChange, faults, disabled }} />
        ) : (
          <Field label={texts.field.text} help={texts.field.textHelp} fault={faults.text}>
            {(control) => (
              <Textarea
                {...control}
                disabled={disabled}
                className="min-h-72 font-mono text-xs"
                value={draft.text}
                onChange={({ target }) => onChange({ ...draft, text: target.value })}
              />
            )}
          </Field>
        )}
        <div className="flex flex-wrap items-center gap-1.5">
          <span className="font-medium">{texts.field.variables}</span>
          {variables.length + sections.length === 0 && (
            <span className="text-soft">{texts.field.noVariables}</span>
          )}
          {variables.map((name) => (
            <Badge key={name} tone="accent">
              {name}
            </Badge>
          ))}
          {sections.map((name) => (
            <Badge key={name}>#{name}</Badge>
          ))}
          {partials.length > 0 && <span className="ml-2 font-medium">{texts.field.partials}</span>}
          {partials.map((name) => (
            <Badge key={name}>&gt;{name}</Badge>
          ))}
        </div>
      </div>
    </Card>
  );
}

function Messages({ draft, onChange, faults, disabled }: EditorProps) {
  const { messages } = draft;
  const change = (index: number, patch: object): void =>
    onChange({
      ...draft,
      messages: messages.map((one, at) => (at === index ? { ...one, ...patch } : one)),
    });
  const up = (index: number): void => {
    const moved = [...messages];
    const [one] = moved.splice(index, 1);
    if (one !== undefined) moved.splice(index - 1, 0, one);
    onChange({ ...draft, messages: moved });
  };
  const add = (): void => {
    const role = messages.at(-1)?.role === 'user' ? 'assistant' : 'user';
    onChange({ ...draft, messages: [...messages, { role, content: '' }] });
  };
  return (
    <>
      {messages.map(({ role, content }, index) => (
        <div key={index} className="border-line grid gap-2 rounded-md border p-2">
          <div className="flex items-center gap-1">
            <Select
              aria-label={texts.field.role(index + 1)}
              className="w-auto"
              disabled={disabled}
              value={role}
              options={[...new Set([...texts.roles, role])].map((one) => [one, one] as const)}
              onChange={({ target }) => change(index, { role: target.value })}
            />
            <span className="grow" />
            {!disabled && index > 0 && (
              <IconButton label={texts.field.upMessage(index + 1)} onClick={() => up(index)}>
                <ArrowUp className="size-4" />
              </IconButton>
            )}
            {!disabled && messages.length > 1 && (
              <IconButton
                label={texts.field.removeMessage(index + 1)}
                onClick={() => onChange({ ...draft, messages: messages.filter((_, at) => at !== index) })}
              >
                <Trash2 className="size-4" />
              </IconButton>
            )}
          </div>
          <Textarea
            aria-label={texts.field.content(index + 1)}
            disabled={disabled}
            rows={Math.min(20, Math.max(3, content.split('\n').length + 1))}
            value={content}
            onChange={({ target }) => change(index, { content: target.value })}
          />
        </div>
      ))}
      {faults.messages !== undefined && (
        <p role="alert" className="text-bad text-xs break-words">
          {faults.messages}
        </p>
      )}
      {!disabled && (
        <div>
          <Button onClick={add}>
            <Plus className="size-4" />
            {texts.field.addMessage}
          </Button>
        </div>
      )}
    </>
  );
}

function Settings({ draft, onChange, faults, disabled }: EditorProps) {
  const { may } = useSession();
  const [open, setOpen] = useState(draft.otherParameters !== '' || draft.tools !== '');
  const providers = useQuery({
    queryKey: ['providers', 'choice'],
    enabled: may('providers.list'),
    queryFn: () => dataOf(api.GET('/providers', { params: { query: { page_size: 100 } } })),
  });
  const slugs = [...new Set((providers.data?.data ?? []).map(({ slug }) => slug))];
  if (draft.provider !== '' && !slugs.includes(draft.provider)) slugs.push(draft.provider);
  const typed = (
    field: 'model' | 'temperature' | 'maxTokens' | 'toolChoice',
    label: string,
    more: object = {},
  ) => (
    <Field
      label={label}
      fault={faults[field]}
      {...(field === 'toolChoice' && { help: texts.field.toolChoiceHelp })}
    >
      {(control) => (
        <Input
          {...control}
          {...more}
          disabled={disabled}
          value={draft[field]}
          onChange={({ target }) => onChange({ ...draft, [field]: target.value })}
        />
      )}
    </Field>
  );
  const area = (field: 'otherParameters' | 'tools', label: string, help: string) => (
    <Field label={label} help={help} fault={faults[field]}>
      {(control) => (
        <Textarea
          {...control}
          disabled={disabled}
          spellCheck={false}
          className="font-mono text-xs"
          rows={Math.min(16, Math.max(3, draft[field].split('\n').length))}
          value={draft[field]}
          onChange={({ target }) => onChange({ ...draft, [field]: target.value })}
        />
      )}
    </Field>
  );
  return (
    <Card title={texts.settings}>
      <div className="grid gap-3 p-4">
        {may('providers.list') ? (
          <Field label={texts.field.provider} fault={faults.provider}>
            {(control) => (
              <Select
                {...control}
                disabled={disabled}
                value={draft.provider}
                options={[
                  ['', texts.field.providerNone],
                  ...slugs.map((slug) => [slug, `@${slug}`] as const),
                ]}
                onChange={({ target }) => onChange({ ...draft, provider: target.value })}
              />
            )}
          </Field>
        ) : null}
        {typed('model', texts.field.model)}
        <div className="grid grid-cols-2 gap-3">
          {typed('temperature', texts.field.temperature, { type: 'number', min: 0, step: 'any' })}
          {typed('maxTokens', texts.field.maxTokens, { type: 'number', min: 1, step: 1 })}
        </div>
        <details open={open} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
          <summary className="cursor-pointer font-medium">{texts.field.more}</summary>
          <div className="grid gap-3 pt-3">
            {area('otherParameters', texts.field.others, texts.field.othersHelp)}
            {area('tools', texts.field.tools, texts.field.toolsHelp)}
            {typed('toolChoice', texts.field.toolChoice)}
          </div>
        </details>
      </div>
    </Card>
  );
}

/** Whether there is anything in a draft that can be sent. */
export function isBlank(draft: Draft): boolean {
  return draft.form === 'text'
    ? templateOf(draft).trim() === ''
    : draft.messages.every(({ content }) => content.trim() === '');
}
