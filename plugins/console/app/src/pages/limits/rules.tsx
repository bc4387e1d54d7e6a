import { Plus, Trash2 } from 'lucide-react';
import { limits as texts } from '@/texts/limits';
import { Button, IconButton } from '@/ui/button';
import { Checkbox, Input, Select } from '@/ui/fields';

interface Condition {
  readonly key: string;
  readonly value: string | readonly string[];
  readonly excludes?: string | readonly string[] | undefined;
}

interface Group {
  readonly key: string;
}

const words: Readonly<Record<string, string>> = texts.keys;
const textOf = (value: string | readonly string[]): string => [value].flat().join(', ');

function nameOf(key: string): string {
  return words[key] ?? key;
}

/** The conditions of a policy in words. */
export function shownConditions(conditions: readonly Condition[]): string {
  return conditions
    .map(({ key, value, excludes }) => {
      const is = textOf(value) === '*' ? `any ${nameOf(key)}` : `${nameOf(key)} ${textOf(value)}`;
      return excludes === undefined ? is : `${is} but ${textOf(excludes)}`;
    })
    .join(' and ');
}

export function shownGroups(groups: readonly Group[]): string {
  return groups.map(({ key }) => nameOf(key)).join(' and ');
}

interface EditorProps {
  readonly value: unknown;
  readonly onChange: (value: unknown) => void;
  readonly id: string;
  readonly disabled: boolean;
}

/** Properties of requests with the values that they shall have. */
export function Conditions({ value, onChange, disabled }: EditorProps) {
  const conditions = value as readonly Condition[];
  const change = (index: number, patch: Partial<Condition>): void =>
    onChange(conditions.map((one, at) => (at === index ? { ...one, ...patch } : one)));
  const list = (text: string): string | string[] => {
    const parts = text.split(',').map((part) => part.trim());
    return parts.length > 1 ? parts : (parts[0] ?? '');
  };
  return (
    <div className="grid gap-2">
      {conditions.map(({ key, value: wanted }, index) => (
        <div key={index} className="flex flex-wrap items-center gap-2">
          <Select
            className="w-44"
            aria-label={`${texts.condition.key} ${index + 1}`}
            disabled={disabled}
            options={[
              ...Object.entries(words),
              ...(words[key] === undefined ? [[key, key] as const] : []),
              ...(key === 'metadata.' ? [] : [['metadata.', texts.metadata] as const]),
            ]}
            value={key}
            onChange={(event) => change(index, { key: event.target.value })}
          />
          {key.startsWith('metadata.') && words[key] === undefined && (
            <Input
              className="w-36"
              aria-label={texts.metadataName}
              disabled={disabled}
              value={key.slice('metadata.'.length)}
              onChange={(event) => change(index, { key: `metadata.${event.target.value}` })}
            />
          )}
          <span className="text-soft">{texts.condition.value}</span>
          <Input
            className="w-56"
            aria-label={`${texts.condition.value} ${index + 1}`}
            disabled={disabled}
            required
            value={textOf(wanted)}
            onChange={(event) => change(index, { value: list(event.target.value) })}
          />
          {!disabled && conditions.length > 1 && (
            <IconButton
              label={texts.condition.remove}
              onClick={() => onChange(conditions.filter((_, at) => at !== index))}
            >
              <Trash2 className="size-4" />
            </IconButton>
          )}
        </div>
      ))}
      {!disabled && (
        <div>
          <Button onClick={() => onChange([...conditions, { key: 'model', value: '*' }])}>
            <Plus className="size-4" />
            {texts.condition.add}
          </Button>
        </div>
      )}
    </div>
  );
}

/** What shares a count. */
export function Groups({ value, onChange, disabled }: EditorProps) {
  const groups = value as readonly Group[];
  const known = [...Object.keys(words), ...groups.map(({ key }) => key).filter((key) => !(key in words))];
  return (
    <div className="flex flex-wrap gap-x-4">
      {known.map((key) => (
        <Checkbox
          key={key}
          label={nameOf(key)}
          disabled={disabled}
          checked={groups.some((one) => one.key === key)}
          onChange={({ target }) =>
            onChange(target.checked ? [...groups, { key }] : groups.filter((one) => one.key !== key))
          }
        />
      ))}
    </div>
  );
}
