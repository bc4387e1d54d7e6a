import { useState } from 'react';
import { Plus } from 'lucide-react';
import { list, together } from '@/lib/format';
import type { Situation } from '@/resource/declaration';
import { limits as texts } from '@/texts/limits';
import { Button } from '@/ui/button';
import { Checkbox, Input, Select } from '@/ui/fields';
import { RowList } from '@/ui/row-list';

interface Condition {
  readonly key: string;
  readonly value: string | readonly string[];
  readonly excludes?: string | readonly string[] | undefined;
}

interface Group {
  readonly key: string;
}

const { shown } = texts.condition;
const words: Readonly<Record<string, string>> = texts.keys;
const ofCallers = ['api_key', 'workspace_id', 'organisation_id', 'metadata._user'];
/** What requests to models, and calls of tools, are told apart by, besides other fields of metadata. */
const keysOf: Readonly<Record<string, readonly string[]>> = {
  llm: [...ofCallers, ...['model', 'provider', 'virtual_key', 'config', 'prompt', 'endpoint_type']],
  mcp_tools: [...ofCallers, 'mcp_server', 'mcp_tool'],
};
/** As it is typed. */
const textOf = (value: string | readonly string[]): string => [value].flat().join(', ');

function nameOf(key: string): string {
  return words[key] ?? key;
}

/** The conditions of a policy in words. */
export function shownConditions(conditions: readonly Condition[]): string {
  return together(
    conditions.map(({ key, value, excludes }) => {
      const is = textOf(value) === '*' ? shown.any(nameOf(key)) : shown.is(nameOf(key), list([value].flat()));
      return excludes === undefined ? is : shown.but(is, list([excludes].flat()));
    }),
  );
}

export function shownGroups(groups: readonly Group[]): string {
  return together(groups.map(({ key }) => nameOf(key)));
}

interface EditorProps {
  readonly value: unknown;
  readonly onChange: (value: unknown) => void;
  readonly id: string;
  readonly disabled: boolean;
  readonly situation: Pick<Situation<object>, 'values'>;
}

/** The keys that the policy may name, with their names; those that it names already stay. */
function offered({ values }: EditorProps['situation'], present: readonly string[]) {
  const known = keysOf[String(values['/target'] ?? 'llm')] ?? [];
  const others = present.filter((key) => !known.includes(key));
  return [...known, ...new Set(others)].map((key) => [key, nameOf(key)] as const);
}

/** Properties of requests with the values that they shall have. */
export function Conditions({ value, onChange, disabled, situation }: EditorProps) {
  const conditions = value as readonly Condition[];
  return (
    <RowList<Condition>
      {...{ value: conditions, onChange, disabled, texts: texts.condition }}
      fresh={() => ({ key: 'api_key', value: '*' })}
      least={1}
      className="flex flex-wrap items-center gap-2"
    >
      {(one, index, change) => {
        const { key, value: wanted, excludes } = one;
        return (
          <>
            <Select
              className="w-44"
              aria-label={texts.condition.keyOf(index + 1)}
              disabled={disabled}
              options={[
                ...offered(situation, [key]),
                ...(key === 'metadata.' ? [] : [['metadata.', texts.metadata] as const]),
              ]}
              value={key}
              onChange={(event) => change({ ...one, key: event.target.value })}
            />
            {key.startsWith('metadata.') && words[key] === undefined && (
              <Input
                className="w-36"
                aria-label={texts.metadataName}
                disabled={disabled}
                value={key.slice('metadata.'.length)}
                onChange={(event) => change({ ...one, key: `metadata.${event.target.value}` })}
              />
            )}
            <span className="text-soft">{texts.condition.value}</span>
            <Input
              className="w-56"
              aria-label={texts.condition.valueOf(index + 1)}
              disabled={disabled}
              required
              value={textOf(wanted)}
              onChange={(event) => change({ ...one, value: listOf(event.target.value) })}
            />
            <span className="text-soft">{texts.condition.excludes}</span>
            <Input
              className="w-48"
              aria-label={texts.condition.excludesOf(index + 1)}
              disabled={disabled}
              placeholder={texts.condition.excludesNone}
              value={textOf(excludes ?? '')}
              onChange={(event) => change(excluding(one, event.target.value))}
            />
          </>
        );
      }}
    </RowList>
  );
}

/** Texts between commas, while they are typed. */
function listOf(text: string): string | string[] {
  const parts = text.split(',').map((part) => part.trim());
  return parts.length > 1 ? parts : (parts[0] ?? '');
}

/** The conditions as they are sent: without what is empty between commas. */
export function withoutEmpty(value: unknown): readonly Condition[] {
  const filled = (said: string | readonly string[]): string | readonly string[] => {
    if (typeof said === 'string') return said;
    const parts = said.filter((part) => part !== '');
    return parts.length > 1 ? parts : (parts[0] ?? '');
  };
  return (value as readonly Condition[]).map(({ key, value: wanted, excludes }) => ({
    ...{ key, value: filled(wanted) },
    ...(excludes !== undefined && filled(excludes) !== '' && { excludes: filled(excludes) }),
  }));
}

function excluding({ key, value }: Condition, text: string): Condition {
  return text === '' ? { key, value } : { key, value, excludes: listOf(text) };
}

/** What shares a count. */
export function Groups({ value, onChange, disabled, situation }: EditorProps) {
  const groups = value as readonly Group[];
  const [name, setName] = useState('');
  const own = `metadata.${name.trim()}`;
  const known = offered(
    situation,
    groups.map(({ key }) => key),
  );
  return (
    <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
      {known.map(([key, text]) => (
        <Checkbox
          key={key}
          label={text}
          disabled={disabled}
          checked={groups.some((one) => one.key === key)}
          onChange={({ target }) =>
            onChange(target.checked ? [...groups, { key }] : groups.filter((one) => one.key !== key))
          }
        />
      ))}
      {!disabled && (
        <span className="flex items-center gap-2">
          <Input
            className="w-44"
            aria-label={texts.metadataName}
            placeholder={texts.metadataName}
            value={name}
            onChange={(event) => setName(event.target.value)}
          />
          <Button
            disabled={name.trim() === '' || groups.some(({ key }) => key === own)}
            onClick={() => {
              onChange([...groups, { key: own }]);
              setName('');
            }}
          >
            <Plus className="size-4" />
            {texts.addGroup}
          </Button>
        </span>
      )}
    </div>
  );
}
