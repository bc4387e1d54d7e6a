import { Plus, Trash2 } from 'lucide-react';
import { mcp as texts } from '@/texts/mcp';
import { Button, IconButton } from '@/ui/button';
import { Field, Input } from '@/ui/fields';

/** The client that the gateway is for an authorization server, as far as the form shows it. */
export type OauthSettings = Readonly<Record<string, string>>;

interface FieldsProps<T> {
  readonly value: T;
  readonly onChange: (value: T) => void;
  readonly disabled: boolean;
}

/** Settings of OAuth; what the form does not show stays as it is. */
export function OauthFields({ value, onChange, disabled }: FieldsProps<OauthSettings>) {
  return (
    <div className="grid gap-3 sm:grid-cols-2">
      {Object.entries(texts.oauth).map(([name, label]) => {
        const text = value[name] ?? '';
        const isSecret = name === 'client_secret';
        return (
          <Field key={name} label={label}>
            {(control) => (
              <Input
                {...control}
                disabled={disabled}
                // Stored secrets come back masked; only typed text is a secret.
                type={isSecret && !text.includes('…') ? 'password' : 'text'}
                autoComplete={isSecret ? 'new-password' : 'off'}
                value={text}
                onChange={({ target }) => {
                  const { [name]: _, ...others } = value;
                  onChange(target.value === '' ? others : { ...others, [name]: target.value });
                }}
              />
            )}
          </Field>
        );
      })}
    </div>
  );
}

/** A tool of a virtual server. */
export interface ToolChoice {
  readonly server: string;
  readonly tool: string;
  readonly name?: string;
  readonly description?: string;
}

/** The single tools of a virtual server, each under a name and a description of its own. */
export function Tools({ value, onChange, disabled }: FieldsProps<readonly ToolChoice[]>) {
  const change = (index: number, field: keyof ToolChoice, text: string): void =>
    onChange(
      value.map((one, at) => {
        if (at !== index) return one;
        const { [field]: _, ...others } = one;
        const isKept = text !== '' || field === 'server' || field === 'tool';
        return { ...others, ...(isKept && { [field]: text }) } as ToolChoice;
      }),
    );
  const fields = ['server', 'tool', 'name', 'description'] as const;
  return (
    <div className="grid gap-2">
      {value.length === 0 && <p className="text-soft">{texts.tool.none}</p>}
      {value.map((one, index) => (
        <div key={index} className="grid grid-cols-[1fr_1fr_1fr_1.5fr_auto] gap-1.5">
          {fields.map((field, at) => (
            <Input
              key={field}
              aria-label={texts.tool[field](index + 1)}
              placeholder={texts.tool.hints[at]}
              disabled={disabled}
              value={one[field] ?? ''}
              onChange={({ target }) => change(index, field, target.value)}
            />
          ))}
          {!disabled && (
            <IconButton
              label={texts.tool.remove(index + 1)}
              onClick={() => onChange(value.filter((_, at) => at !== index))}
            >
              <Trash2 className="size-4" />
            </IconButton>
          )}
        </div>
      ))}
      {!disabled && (
        <div>
          <Button onClick={() => onChange([...value, { server: '', tool: '' }])}>
            <Plus className="size-4" />
            {texts.tool.add}
          </Button>
        </div>
      )}
    </div>
  );
}
