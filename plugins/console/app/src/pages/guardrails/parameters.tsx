import { useState, type ReactNode } from 'react';
import { isObject } from '@/lib/json';
import { guardrails as texts } from '@/texts/guardrails';
import { Checkbox, Field, Input, Select, Textarea } from '@/ui/fields';

/** The part of JSON schema that parameters of checks are described in. */
export interface Schema {
  readonly type?: string;
  readonly description?: string;
  readonly default?: unknown;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly minimum?: number;
  readonly maximum?: number;
}

type Values = Readonly<Record<string, unknown>>;

interface ParametersProps {
  readonly schema: Schema;
  readonly value: Values;
  readonly onChange: (value: Values) => void;
  readonly disabled: boolean;
  /** Its texts are secrets: they are written and not read. */
  readonly secret?: boolean;
}

/** A form of the parameters that a schema describes. */
export function Parameters({ schema, value, onChange, disabled, secret = false }: ParametersProps) {
  const properties = Object.entries(schema.properties ?? {});
  if (properties.length === 0) return <p className="text-soft">{texts.noParameters}</p>;
  const set = (name: string, next: unknown): void => {
    const { [name]: _, ...others } = value;
    onChange(next === undefined ? others : { ...others, [name]: next });
  };
  return (
    <div className="grid gap-3 sm:grid-cols-2">
      {properties.map(([name, one]) => (
        <Parameter
          key={name}
          {...{ name, disabled, secret }}
          schema={one}
          required={schema.required?.includes(name) === true}
          value={value[name]}
          onChange={(next) => set(name, next)}
        />
      ))}
    </div>
  );
}

interface ParameterProps {
  readonly name: string;
  readonly schema: Schema;
  readonly required: boolean;
  readonly value: unknown;
  readonly onChange: (value: unknown) => void;
  readonly disabled: boolean;
  readonly secret: boolean;
}

function choicesOf({ anyOf, enum: values }: Schema): readonly string[] | undefined {
  const all = values ?? (anyOf?.every((one) => 'const' in one) ? anyOf.map((one) => one.const) : undefined);
  return all?.map(String);
}

function Parameter(props: ParameterProps): ReactNode {
  const { name, schema, required, value, onChange, disabled, secret } = props;
  const label = required ? texts.required(name) : name;
  const choices = choicesOf(schema);
  const help = schema.description;
  const given = value ?? schema.default;
  if (schema.type === 'boolean')
    return (
      <div className="grid content-start gap-1">
        <Checkbox
          label={label}
          disabled={disabled}
          checked={given === true}
          onChange={({ target }) => onChange(target.checked)}
        />
        {help !== undefined && <p className="text-soft text-xs">{help}</p>}
      </div>
    );
  if (schema.type === 'object' && schema.properties !== undefined)
    return (
      <fieldset className="border-line col-span-full rounded-md border p-3">
        <legend className="px-1 font-medium">{label}</legend>
        {help !== undefined && <p className="text-soft pb-2 text-xs">{help}</p>}
        <Parameters
          schema={schema}
          value={isObject(value) ? value : {}}
          onChange={(next) => onChange(Object.keys(next).length === 0 ? undefined : next)}
          disabled={disabled}
          secret={secret || name === 'credentials'}
        />
      </fieldset>
    );
  const items = schema.type === 'array' ? schema.items : undefined;
  const itemChoices = items && choicesOf(items);
  if (itemChoices !== undefined)
    return <Several {...props} label={label} help={help} choices={itemChoices} />;
  if (items?.type === 'string') return <Lines {...props} label={label} help={help} />;
  if (choices !== undefined)
    return (
      <Field label={label} help={help}>
        {(control) => (
          <Select
            {...control}
            disabled={disabled}
            value={given === undefined ? '' : String(given)}
            options={[
              ...(given === undefined ? [['', '–'] as const] : []),
              ...choices.map((one) => [one, one] as const),
            ]}
            onChange={({ target }) => onChange(target.value === '' ? undefined : target.value)}
          />
        )}
      </Field>
    );
  if (schema.type === 'number' || schema.type === 'integer')
    return (
      <Field label={label} help={help}>
        {(control) => (
          <Input
            {...control}
            type="number"
            step={schema.type === 'integer' ? 1 : 'any'}
            min={schema.minimum}
            max={schema.maximum}
            disabled={disabled}
            placeholder={schema.default === undefined ? undefined : String(schema.default)}
            value={value === undefined ? '' : String(value)}
            onChange={({ target }) => onChange(target.value === '' ? undefined : Number(target.value))}
          />
        )}
      </Field>
    );
  if (schema.type === 'string')
    return (
      <Field label={label} help={help}>
        {(control) => (
          <Input
            {...control}
            disabled={disabled}
            type={secret ? 'password' : 'text'}
            autoComplete={secret ? 'new-password' : 'off'}
            value={typeof value === 'string' ? value : ''}
            onChange={({ target }) => onChange(target.value === '' ? undefined : target.value)}
          />
        )}
      </Field>
    );
  return <Json {...props} label={label} help={help} />;
}

interface LabelledProps extends ParameterProps {
  readonly label: string;
  readonly help: string | undefined;
}

function Several(props: LabelledProps & { readonly choices: readonly string[] }) {
  const { label, help, value, onChange, disabled, choices } = props;
  const chosen = Array.isArray(value) ? value.map(String) : [];
  return (
    <fieldset className="col-span-full">
      <legend className="mb-1 font-medium">{label}</legend>
      <div className="flex flex-wrap gap-x-4 gap-y-1">
        {choices.map((one) => (
          <Checkbox
            key={one}
            label={one}
            disabled={disabled}
            checked={chosen.includes(one)}
            onChange={({ target }) => {
              const next = target.checked ? [...chosen, one] : chosen.filter((other) => other !== one);
              onChange(next.length === 0 ? undefined : next);
            }}
          />
        ))}
      </div>
      {help !== undefined && <p className="text-soft mt-1 text-xs">{help}</p>}
    </fieldset>
  );
}

function Lines({ label, help, value, onChange, disabled }: LabelledProps) {
  // The text as it is typed: an empty line at its end is one that is about to be filled.
  const [text, setText] = useState(() => (Array.isArray(value) ? value.map(String).join('\n') : ''));
  return (
    <Field label={label} help={[help, texts.oneALine].filter(Boolean).join(' ')}>
      {(control) => (
        <Textarea
          {...control}
          disabled={disabled}
          className="min-h-16"
          value={text}
          onChange={({ target }) => {
            setText(target.value);
            const lines = target.value.split('\n').filter((line) => line.trim() !== '');
            onChange(lines.length === 0 ? undefined : lines);
          }}
        />
      )}
    </Field>
  );
}

function Json({ label, help, value, onChange, disabled }: LabelledProps) {
  const [text, setText] = useState(() =>
    value === undefined ? '' : typeof value === 'string' ? value : JSON.stringify(value, null, 2),
  );
  const [fault, setFault] = useState<string>();
  return (
    <Field
      label={label}
      fault={fault}
      className="col-span-full"
      help={[help, texts.isJson].filter(Boolean).join(' ')}
    >
      {(control) => (
        <Textarea
          {...control}
          disabled={disabled}
          spellCheck={false}
          className="font-mono text-xs"
          value={text}
          onChange={({ target }) => {
            setText(target.value);
            setFault(undefined);
            if (target.value.trim() === '') return onChange(undefined);
            try {
              onChange(JSON.parse(target.value));
            } catch (error) {
              // Texts are allowed in some places; in the others the gateway says what it needs.
              onChange(target.value);
              if (/^\s*[[{]/.test(target.value))
                setFault(texts.fault.json(error instanceof Error ? error.message : ''));
            }
          }}
        />
      )}
    </Field>
  );
}
