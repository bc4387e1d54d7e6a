import { useId, useState, type ReactNode } from 'react';
import { classes } from '@/lib/classes';
import { zoneName } from '@/lib/format';
import { usePreferences } from '@/lib/preferences';
import { fromInput, toInput } from '@/lib/zones';
import type { FieldOf, FormField, Option, Situation } from '@/resource/declaration';
import { type RateLimit, RatesEditor, UsageEditor, type UsageLimit } from '@/resource/limits';
import { Reference } from '@/resource/reference';
import { possibleScopes, storedValue } from '@/resource/values';
import { resource as texts } from '@/texts/resource';
import { Button } from '@/ui/button';
import { Checkbox, describedBy, Field, Input, Notes, Select, Textarea } from '@/ui/fields';
import { RowList } from '@/ui/row-list';

interface ControlProps<R extends object> {
  readonly field: FormField<R>;
  readonly value: unknown;
  readonly onChange: (value: unknown) => void;
  readonly fault: string | undefined;
  readonly situation: Situation<R>;
  readonly disabled: boolean;
}

/** The control of a field, with its label, help and fault. */
export function Control<R extends object>(props: ControlProps<R>) {
  const { field, value, onChange, fault, situation, disabled } = props;
  const text = typeof value === 'string' ? value : '';
  const label = field.label;
  const help = helpOf(field, situation.record);
  const frame = { label, help, fault, className: classes(isWide(field) && 'col-span-full') };
  const typed = (type: string, more: object = {}): ReactNode => (
    <Field {...frame}>
      {(control) => (
        <Input
          {...control}
          {...more}
          type={type}
          disabled={disabled}
          required={field.required === true && !(field.kind === 'secret' && situation.record)}
          value={text}
          onChange={(event) => onChange(event.target.value)}
        />
      )}
    </Field>
  );
  const area = (mono: boolean, placeholder?: string): ReactNode => (
    <Field {...frame}>
      {(control) => (
        <Textarea
          {...control}
          disabled={disabled}
          placeholder={placeholder}
          spellCheck={!mono}
          className={mono ? 'min-h-28 font-mono text-xs' : ''}
          value={text}
          onChange={(event) => onChange(event.target.value)}
        />
      )}
    </Field>
  );
  switch (field.kind) {
    case 'text':
      return typed('text', {
        placeholder: field.placeholder,
        className: field.mono === true ? 'font-mono text-xs' : undefined,
      });
    case 'email':
      return typed('email', { placeholder: field.placeholder });
    case 'long':
      return area(field.mono === true, field.placeholder);
    case 'json':
      return area(true);
    case 'lines':
      return area(false, field.placeholder);
    case 'number':
      return typed('number', { min: field.min, max: field.max, step: field.whole === true ? 1 : 'any' });
    case 'money':
      return typed('number', { min: field.min ?? 0, step: 'any', inputMode: 'decimal' });
    case 'secret':
      return field.long === true
        ? area(true, texts.secret.keep)
        : typed('password', {
            autoComplete: 'new-password',
            placeholder: situation.record ? texts.secret.keep : undefined,
          });
    case 'time':
      return <TimeControl {...frame} value={text} onChange={onChange} disabled={disabled} />;
    case 'choice':
      return (
        <Field {...frame}>
          {(control) => (
            <Select
              {...control}
              disabled={disabled}
              options={optionsOf(field, situation).map((one) => [one.value, one.text])}
              value={text}
              onChange={(event) => onChange(event.target.value)}
            />
          )}
        </Field>
      );
    case 'reference':
      return (
        <Field {...frame}>
          {(control) => (
            <Reference
              {...control}
              label={label}
              none={field.none}
              several={field.several === true}
              disabled={disabled}
              value={value as string | readonly string[]}
              onChange={onChange}
              find={field.find}
            />
          )}
        </Field>
      );
    case 'toggle':
      return (
        <Group {...frame} label="">
          {() => (
            <Checkbox
              label={label}
              disabled={disabled}
              checked={value === true}
              onChange={(event) => onChange(event.target.checked)}
            />
          )}
        </Group>
      );
    case 'choices':
      return (
        <Group {...frame}>
          {() => (
            <div className="flex flex-wrap gap-x-4">
              <Choices
                options={optionsOf(field, situation)}
                value={value as readonly string[]}
                onChange={onChange}
                disabled={disabled}
              />
            </div>
          )}
        </Group>
      );
    case 'scopes':
      return (
        <Group {...frame}>
          {() => (
            <Scopes
              field={field}
              value={value as readonly string[]}
              onChange={onChange}
              disabled={disabled}
              situation={situation}
            />
          )}
        </Group>
      );
    case 'pairs':
      return (
        <Group {...frame}>
          {() => (
            <Pairs
              secret={field.secret === true}
              value={value as readonly Pair[]}
              onChange={onChange}
              disabled={disabled}
            />
          )}
        </Group>
      );
    case 'usage':
      return (
        <Group {...frame}>
          {(id) => (
            <UsageEditor
              id={id}
              value={value as readonly UsageLimit[]}
              onChange={onChange}
              disabled={disabled}
              invalid={fault !== undefined}
              most={field.several === true ? 10 : 1}
            />
          )}
        </Group>
      );
    case 'rates':
      return (
        <Group {...frame}>
          {(id) => (
            <RatesEditor
              id={id}
              value={value as readonly RateLimit[]}
              onChange={onChange}
              disabled={disabled}
              invalid={fault !== undefined}
            />
          )}
        </Group>
      );
    case 'own':
      return <Group {...frame}>{(id) => field.control({ value, onChange, situation, id, disabled })}</Group>;
  }
}

function isWide<R>(field: FormField<R>): boolean {
  if (field.wide !== undefined) return field.wide;
  return !['text', 'email', 'number', 'money', 'choice', 'time', 'secret', 'reference', 'toggle'].includes(
    field.kind,
  );
}

function helpOf<R extends object>(field: FormField<R>, record: R | undefined): ReactNode {
  if (field.kind === 'secret' && record !== undefined) {
    const stored = storedValue(field, record);
    if (typeof stored === 'string' && stored !== '') return texts.secret.stored(stored);
  }
  if (field.kind === 'lines' && field.help === undefined) return texts.lines;
  if (field.kind === 'number' && field.unit !== undefined && field.help === undefined) return field.unit;
  return field.help;
}

function optionsOf<R>(
  field: FieldOf<R, 'choice'> | FieldOf<R, 'choices'>,
  situation: Situation<R>,
): readonly Option[] {
  return typeof field.options === 'function' ? field.options(situation) : field.options;
}

interface GroupProps {
  readonly label: string;
  readonly help?: ReactNode;
  readonly fault?: string | undefined;
  readonly className?: string;
  readonly children: (id: string) => ReactNode;
}

/** Several controls below one name. */
function Group({ label, help, fault, className, children }: GroupProps) {
  const id = useId();
  return (
    <fieldset
      aria-describedby={describedBy({ id, help, fault })}
      className={classes('grid min-w-0 content-start gap-1', className)}
    >
      {label !== '' && <legend className="mb-1 font-medium">{label}</legend>}
      {children(id)}
      <Notes {...{ id, help, fault }} />
    </fieldset>
  );
}

interface TimeProps extends Omit<GroupProps, 'children'> {
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly disabled: boolean;
}

function TimeControl({ value, onChange, disabled, ...frame }: TimeProps) {
  const { zone } = usePreferences();
  const date = Date.parse(value);
  const shown = Number.isNaN(date) ? '' : toInput(date, zone);
  const read = (text: string): string => {
    const at = fromInput(text, zone);
    return Number.isNaN(at) ? '' : new Date(at).toISOString();
  };
  return (
    <Field {...frame} help={[frame.help, texts.zone(zoneName(zone))].filter(Boolean).join(' ')}>
      {(control) => (
        <Input
          {...control}
          type="datetime-local"
          disabled={disabled}
          value={shown}
          onChange={(event) => onChange(read(event.target.value))}
        />
      )}
    </Field>
  );
}

interface ChoicesProps {
  readonly options: readonly Option[];
  readonly value: readonly string[];
  readonly onChange: (value: readonly string[]) => void;
  readonly disabled: boolean;
}

function Choices({ options, value, onChange, disabled }: ChoicesProps) {
  return options.map((option) => (
    <Checkbox
      key={option.value}
      label={option.text}
      disabled={disabled}
      checked={value.includes(option.value)}
      onChange={({ target }) =>
        onChange(target.checked ? [...value, option.value] : value.filter((one) => one !== option.value))
      }
    />
  ));
}

interface ScopesProps<R extends object> extends Omit<ChoicesProps, 'options'> {
  readonly field: FieldOf<R, 'scopes'>;
  readonly situation: Situation<R>;
}

function Scopes<R extends object>({ field, value: chosen, onChange, disabled, situation }: ScopesProps<R>) {
  const [filter, setFilter] = useState('');
  const value = possibleScopes(field, chosen, situation);
  const all = [...new Set([...field.options(situation), ...value])].sort();
  const found = all.filter((scope) => scope.includes(filter.trim().toLowerCase()));
  const groups = [...new Set(found.map((scope) => scope.split('.')[0] ?? ''))].map(
    (group) => [group, found.filter((scope) => scope.split('.')[0] === group)] as const,
  );
  const presets = (field.presets ?? [])
    .map(({ text, scopes }) => ({ text, scopes: scopes.filter((scope) => all.includes(scope)) }))
    .filter(({ scopes }) => scopes.length > 0);
  return (
    <div className="grid gap-2">
      {!disabled && presets.length > 0 && (
        <div className="flex flex-wrap items-center gap-1.5" role="group" aria-label={texts.scopes.presets}>
          {presets.map(({ text, scopes }) => (
            <Button
              key={text}
              aria-pressed={scopes.length === value.length && scopes.every((one) => value.includes(one))}
              className="aria-pressed:bg-accent-wash aria-pressed:text-accent aria-pressed:border-accent"
              onClick={() => onChange(scopes)}
            >
              {text}
            </Button>
          ))}
          <Button kind="quiet" onClick={() => onChange([])}>
            {texts.scopes.clear}
          </Button>
        </div>
      )}
      <div className="border-line rounded-md border">
        <div className="border-line flex items-center gap-3 border-b px-2 py-1.5">
          <Input
            aria-label={texts.scopes.filter}
            placeholder={texts.scopes.filter}
            value={filter}
            onChange={(event) => setFilter(event.target.value)}
            onKeyDown={(event) => event.key === 'Enter' && event.preventDefault()}
          />
          <span className="text-soft text-xs whitespace-nowrap" aria-live="polite">
            {texts.scopes.chosen(value.length)}
          </span>
        </div>
        <div className="grid max-h-64 gap-2 overflow-y-auto p-3" tabIndex={-1}>
          {groups.map(([group, scopes]) => (
            <div
              key={group}
              role="group"
              aria-label={group}
              className="grid gap-x-2 text-xs sm:grid-cols-[13rem_1fr]"
            >
              <span className="text-soft leading-7 break-words">{group}</span>
              <div className="flex flex-wrap gap-x-4">
                <Choices
                  options={scopes.map((scope) => ({
                    value: scope,
                    text: scope.slice(group.length + 1) || scope,
                  }))}
                  value={value}
                  onChange={onChange}
                  disabled={disabled}
                />
              </div>
            </div>
          ))}
        </div>
      </div>
    </div>
  );
}

type Pair = readonly [name: string, value: string];

interface PairsProps {
  readonly secret: boolean;
  readonly value: readonly Pair[];
  readonly onChange: (value: readonly Pair[]) => void;
  readonly disabled: boolean;
}

function Pairs({ secret, ...list }: PairsProps) {
  const { disabled } = list;
  return (
    <RowList<Pair> {...list} fresh={() => ['', '']} texts={texts.pairs} className="flex gap-1.5">
      {([name, text], index, change) => (
        <>
          <Input
            aria-label={texts.pairs.nameOf(index + 1)}
            placeholder={texts.pairs.name}
            disabled={disabled}
            value={name}
            onChange={(event) => change([event.target.value, text])}
          />
          <Input
            aria-label={texts.pairs.valueOf(index + 1)}
            placeholder={texts.pairs.value}
            type={secret ? 'password' : 'text'}
            autoComplete={secret ? 'new-password' : 'off'}
            disabled={disabled}
            value={text}
            onChange={(event) => change([name, event.target.value])}
          />
        </>
      )}
    </RowList>
  );
}
