import { mcp as texts } from '@/texts/mcp';
import { Field, Input } from '@/ui/fields';
import { RowList } from '@/ui/row-list';

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
export function Tools(list: FieldsProps<readonly ToolChoice[]>) {
  const fields = ['server', 'tool', 'name', 'description'] as const;
  return (
    <RowList<ToolChoice>
      {...list}
      fresh={() => ({ server: '', tool: '' })}
      texts={texts.tool}
      className="grid grid-cols-[1fr_1fr_1fr_1.5fr_auto] gap-1.5"
    >
      {(one, index, change) =>
        fields.map((field, at) => (
          <Input
            key={field}
            aria-label={texts.tool[field](index + 1)}
            placeholder={texts.tool.hints[at]}
            disabled={list.disabled}
            value={one[field] ?? ''}
            onChange={({ target }) => change(withText(one, field, target.value))}
          />
        ))
      }
    </RowList>
  );
}

/** The tool with a text; what it may lack is left out when it is empty. */
function withText(tool: ToolChoice, field: keyof ToolChoice, text: string): ToolChoice {
  if (text !== '' || field === 'server' || field === 'tool') return { ...tool, [field]: text };
  const { [field]: _, ...others } = tool;
  return others;
}
