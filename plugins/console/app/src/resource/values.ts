import type { Mistake } from '@/api/client';
import type { FieldOf, FormField, Situation, Values } from '@/resource/declaration';
import { resource as texts } from '@/texts/resource';

/** The value at a JSON pointer, or undefined. */
export function valueAt(record: unknown, pointer: string): unknown {
  let value = record;
  for (const name of pointer.split('/').slice(1)) {
    if (typeof value !== 'object' || value === null) return undefined;
    value = (value as Readonly<Record<string, unknown>>)[name];
  }
  return value;
}

/** The form's values for a record, or for a new one. */
export function valuesOf<R extends object>(
  fields: readonly FormField<R>[],
  record: R | undefined,
): Record<string, unknown> {
  return Object.fromEntries(fields.map((field) => [field.path, valueOf(field, record)]));
}

/** What the record says in a field. */
export function storedValue<R extends object>(field: FormField<R>, record: R): unknown {
  return field.from ? field.from(record) : valueAt(record, field.path);
}

function valueOf<R extends object>(field: FormField<R>, record: R | undefined): unknown {
  if (field.kind === 'secret') return '';
  const stored = record === undefined ? field.initial : storedValue(field, record);
  switch (field.kind) {
    case 'number':
    case 'money':
      return stored === null || stored === undefined ? '' : String(stored);
    case 'toggle':
      return stored === true;
    case 'choices':
    case 'scopes':
    case 'rates':
      return stored ?? [];
    case 'reference':
      return stored ?? (field.several === true ? [] : '');
    case 'usage':
      if (field.several === true) return stored ?? [];
      return stored === undefined || stored === null ? [] : [stored].flat();
    case 'pairs':
      return Object.entries((stored ?? {}) as Readonly<Record<string, string>>);
    case 'lines':
      return ((stored ?? []) as readonly string[]).join('\n');
    case 'json':
      return stored === undefined || stored === null ? '' : JSON.stringify(stored, null, 2);
    case 'own':
      return stored;
    default:
      return stored ?? '';
  }
}

/** A value that cannot be sent, with the reason. */
class Unfit extends Error {}

function sent<R>(field: FormField<R>, value: unknown): unknown {
  if (field.send) return field.send(value);
  switch (field.kind) {
    case 'number':
    case 'money': {
      if (value === '') return null;
      const number = Number(value);
      if (!Number.isFinite(number)) throw new Unfit(texts.fault.number);
      return number;
    }
    case 'usage':
      return field.several === true ? value : ((value as readonly unknown[])[0] ?? null);
    case 'pairs':
      return pairsOf(value as readonly (readonly [string, string])[]);
    case 'lines': {
      const lines = String(value)
        .split('\n')
        .map((line) => line.trim())
        .filter((line) => line !== '');
      return lines.length === 0 && field.noneIsNull === true ? null : lines;
    }
    case 'json':
      if (String(value).trim() === '') return null;
      try {
        return JSON.parse(String(value)) as unknown;
      } catch (error) {
        throw new Unfit(texts.fault.json(error instanceof Error ? error.message : ''));
      }
    case 'text':
    case 'email':
    case 'long':
    case 'choice':
    case 'time':
    case 'reference':
      if (value !== '') return value;
      return field.empty === 'text' ? '' : field.empty === 'omit' ? undefined : null;
    default:
      return value;
  }
}

function pairsOf(pairs: readonly (readonly [string, string])[]): Record<string, string> {
  const named = pairs.filter(([name, value]) => name !== '' || value !== '');
  const names = named.map(([name]) => name);
  if (names.includes('')) throw new Unfit(texts.fault.name);
  if (new Set(names).size < names.length) throw new Unfit(texts.fault.twice);
  return Object.fromEntries(named);
}

export function same(left: unknown, right: unknown): boolean {
  return left === right || JSON.stringify(left) === JSON.stringify(right);
}

/** The field that the user changed. */
export function isChanged<R>(field: FormField<R>, values: Values, before: Values): boolean {
  return !same(values[field.path], before[field.path]);
}

/** First member of a pointer: `/defaults` of `/defaults/metadata`. */
function first(pointer: string): string {
  return `/${pointer.split('/')[1] ?? ''}`;
}

/** Nothing that a new record has to be told. */
function isVoid(value: unknown): boolean {
  if (value === undefined || value === null || value === '') return true;
  if (Array.isArray(value)) return value.length === 0;
  return typeof value === 'object' && Object.keys(value).length === 0;
}

/** Chosen scopes; of a new record without those that it cannot have, such as after another kind was chosen. */
export function possibleScopes<R>(
  field: FieldOf<R, 'scopes'>,
  value: readonly string[],
  situation: Situation<R>,
): readonly string[] {
  if (situation.record !== undefined) return value;
  const offered = field.options(situation);
  return value.filter((scope) => offered.includes(scope));
}

/** The body of a form, or the faults by field that keep it from being sent. */
export function bodyOf<R extends object>(
  fields: readonly FormField<R>[],
  { values, before, situation }: { values: Values; before: Values; situation: Situation<R> },
): { readonly body: Record<string, unknown>; readonly faults: Record<string, string> } {
  const body: Record<string, unknown> = {};
  const faults: Record<string, string> = {};
  const { record } = situation;
  const isNew = record === undefined;
  const given = fields.filter(
    (field) => field.only !== (isNew ? 'update' : 'create') && (field.shown?.(situation) ?? true),
  );
  const touched = new Set(
    given.filter((field) => isChanged(field, values, before)).map(({ path }) => first(path)),
  );
  for (const field of given) {
    const chosen = values[field.path];
    const value =
      field.kind === 'scopes' ? possibleScopes(field, chosen as readonly string[], situation) : chosen;
    if (field.required === true && isVoid(value) && !(field.kind === 'secret' && !isNew)) {
      faults[field.path] = texts.fault.required;
      continue;
    }
    if (!isNew && !touched.has(first(field.path))) continue;
    try {
      let said = sent(field, value);
      if (field.kind === 'secret' && value === '' && !isNew) {
        // Sent back as it was shown, beside others of its member, it stays what it is.
        said = first(field.path) === field.path ? undefined : (storedValue(field, record) ?? undefined);
      }
      if (said === undefined || (isNew && isVoid(said))) continue;
      if (field.path.split('/').length > 2 && said === null && field.empty === 'omit') continue;
      put(body, field.path, said);
    } catch (error) {
      if (!(error instanceof Unfit)) throw error;
      faults[field.path] = error.message;
    }
  }
  return { body, faults };
}

function put(body: Record<string, unknown>, pointer: string, value: unknown): void {
  const names = pointer.split('/').slice(1);
  const last = names.pop() as string;
  let place = body;
  for (const name of names) {
    place[name] ??= {};
    place = place[name] as Record<string, unknown>;
  }
  place[last] = value;
}

/** Faults of the gateway at the fields that they are about; `rest` are those of none. */
export function faultsAt<R>(
  fields: readonly FormField<R>[],
  mistakes: readonly Mistake[],
): { readonly faults: Record<string, string>; readonly rest: readonly string[] } {
  const faults: Record<string, string> = {};
  const rest: string[] = [];
  for (const { path, message } of mistakes) {
    const field = fields
      .filter((one) => path === one.path || path.startsWith(`${one.path}/`))
      .sort((left, right) => right.path.length - left.path.length)[0];
    if (field === undefined) {
      rest.push(path === '' ? message : `${path} ${message}`);
      continue;
    }
    const inner = path.slice(field.path.length + 1).replaceAll('/', ' ');
    const text = inner === '' ? message : `${inner}: ${message}`;
    faults[field.path] = faults[field.path] === undefined ? text : `${faults[field.path]}; ${text}`;
  }
  return { faults, rest };
}
