import type { ReactNode } from 'react';
import { useCaller } from '@/api/session';
import { useWorkspaceNames } from '@/lib/names';
import type { Finder, FormField, Section } from '@/resource/declaration';
import { type RateLimit, ShownLimits, ShownRates, type UsageLimit } from '@/resource/limits';
import { useReferences } from '@/resource/reference';
import { storedValue, valuesOf } from '@/resource/values';
import { resource as texts } from '@/texts/resource';
import { count, money } from '@/lib/format';
import { Badge, Code, CodeBlock, Time } from '@/ui/small';

const nothing = <span className="text-soft">–</span>;

interface ShownValueProps<R extends object> {
  readonly field: FormField<R>;
  readonly record: R;
}

/** What a record says in a field, to read. */
export function ShownValue<R extends object>({ field, record }: ShownValueProps<R>): ReactNode {
  if (field.show) return field.show(record);
  const value = storedValue(field, record);
  switch (field.kind) {
    case 'toggle':
      return value === true ? texts.yes : texts.no;
    case 'usage':
      return (
        <ShownLimits
          limits={([value].flat() as (UsageLimit | null)[]).filter((one) => one != null)}
          resets={
            'next_usage_reset_at' in record && typeof record.next_usage_reset_at === 'string'
              ? record.next_usage_reset_at
              : null
          }
        />
      );
    case 'rates':
      return <ShownRates limits={value as readonly RateLimit[] | null} />;
    default:
  }
  if (value === undefined || value === null || value === '') return nothing;
  switch (field.kind) {
    case 'time':
      return <Time iso={String(value)} />;
    case 'money':
      return money(Number(value));
    case 'number':
      return `${count(Number(value))}${field.unit === undefined ? '' : ` ${field.unit}`}`;
    case 'secret':
      // A mask without a letter of it.
      if (/^\W*$/.test(String(value))) return <span className="text-soft">{texts.secret.hidden}</span>;
      return <code className="bg-raised rounded px-1.5 py-0.5 font-mono text-xs">{String(value)}</code>;
    case 'long':
      return <p className="break-words whitespace-pre-wrap">{String(value)}</p>;
    case 'choice':
    case 'choices':
    case 'scopes':
    case 'lines':
      return <Words field={field} values={[value].flat().map(String)} />;
    case 'reference':
      return <Referred find={field.find} values={[value].flat().map(String)} />;
    case 'pairs':
      return <Pairs pairs={Object.entries(value as Readonly<Record<string, string>>)} />;
    case 'json':
      return <CodeBlock text={JSON.stringify(value, null, 2)} />;
    case 'text':
      return field.mono === true ? <Code text={String(value)} /> : String(value);
    default:
      return typeof value === 'object' ? <CodeBlock text={JSON.stringify(value, null, 2)} /> : String(value);
  }
}

function Words<R>({ field, values }: { readonly field: FormField<R>; readonly values: readonly string[] }) {
  if (values.length === 0) return nothing;
  const options = 'options' in field && Array.isArray(field.options) ? field.options : [];
  const textOf = (value: string): string => options.find((one) => one.value === value)?.text ?? value;
  if (field.kind === 'choice') return textOf(values[0] ?? '');
  return (
    <span className="flex flex-wrap gap-1">
      {values.map((value) => (
        <Badge key={value}>{textOf(value)}</Badge>
      ))}
    </span>
  );
}

interface ReferredProps {
  readonly find: Finder;
  readonly values: readonly string[];
}

/** Other records by their names, as far as the caller may list them. */
function Referred({ find, values }: ReferredProps) {
  const { data } = useReferences(find, '', values.length > 0);
  if (values.length === 0) return nothing;
  return (
    <span className="flex flex-wrap gap-1">
      {values.map((value) => {
        const name = data?.find((one) => one.value === value)?.text;
        return name === undefined ? (
          <Badge key={value}>{value}</Badge>
        ) : (
          <span key={value} title={value} className="min-w-0 wrap-anywhere">
            {name}
          </span>
        );
      })}
    </span>
  );
}

/** Names with their texts. */
export function Pairs({ pairs }: { readonly pairs: readonly (readonly [string, string])[] }) {
  if (pairs.length === 0) return nothing;
  return (
    <dl className="grid gap-x-3 sm:grid-cols-[auto_1fr]">
      {pairs.map(([name, value]) => (
        <div key={name} className="contents">
          <dt className="text-soft font-mono text-xs">{name}</dt>
          <dd className="min-w-0 font-mono text-xs break-words max-sm:mb-1.5">{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** A workspace by its name, for callers who may know it. */
export function WorkspaceName({ id }: { readonly id: string }) {
  return useWorkspaceNames().get(id) ?? <Badge>{id}</Badge>;
}

interface FactsProps {
  readonly rows: readonly (readonly [label: string, value: ReactNode])[];
}

/** Facts of a record below each other: their names at the left. */
export function Facts({ rows }: FactsProps) {
  return (
    <dl className="grid grid-cols-[minmax(6.5rem,12rem)_minmax(0,1fr)] gap-x-4 gap-y-2">
      {rows.map(([label, value]) => (
        <div key={label} className="contents">
          <dt className="text-soft">{label}</dt>
          <dd className="min-w-0 wrap-anywhere">{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** All fields of a record, to read. */
export function ShownRecord<R extends object>({
  sections,
  record,
}: {
  readonly sections: readonly Section<R>[];
  readonly record: R;
}) {
  const caller = useCaller();
  return sections.map((section) => {
    const situation = { values: valuesOf(section.fields, record), record, caller };
    const shown = section.fields.filter(
      (field) => (field.shown?.(situation) ?? true) && field.show?.(record) !== null,
    );
    if (shown.length === 0) return null;
    return (
      <section key={section.title} className="grid gap-2">
        <h3 className="border-line border-b pb-1 font-semibold">{section.title}</h3>
        <Facts rows={shown.map((field) => [field.label, <ShownValue field={field} record={record} />])} />
      </section>
    );
  });
}
