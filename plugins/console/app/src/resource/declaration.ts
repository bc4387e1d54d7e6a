import type { ReactNode } from 'react';
import type { Caller } from '@/api/session';
import type { Columns } from '@/ui/data-table';

/**
 * Declares the pages of one kind of record: its list, its form, its details. A page is then
 *
 * ```tsx
 * const labels: Resource<Label, CreateLabel, UpdateLabel> = {
 *   ...{ name: 'labels', noun: 'label', title: 'Labels', audit: 'labels' },
 *   id: ({ id }) => id,
 *   label: ({ name }) => name,
 *   list: ({ page, size }) =>
 *     dataOf(api.GET('/labels', { params: { query: { current_page: page, page_size: size } } })),
 *   get: (id) => versioned(api.GET('/labels/{labelId}', { params: { path: { labelId: id } } })),
 *   columns: [{ header: 'Name', accessorKey: 'name' }],
 *   create: { scopes: ['prompts.create'], run: (body) => dataOf(api.POST('/labels', { body })) },
 *   update: {
 *     scopes: ['prompts.update'],
 *     run: (id, body, headers) =>
 *       dataOf(api.PUT('/labels/{labelId}', { params: { path: { labelId: id } }, body, headers })),
 *   },
 *   remove: {
 *     ...{ scopes: ['prompts.delete'], action: 'Delete', text: 'It is gone for good.' },
 *     run: (id, headers) =>
 *       dataOf(api.DELETE('/labels/{labelId}', { params: { path: { labelId: id } }, headers })),
 *   },
 *   sections: [
 *     { title: 'Label', fields: [{ kind: 'text', path: '/name', label: 'Name', required: true }] },
 *   ],
 * };
 * export default function Labels() {
 *   return <ResourcePage resource={labels} />;
 * }
 * ```
 *
 * `R` is the record in answers; `C` and `U` are the bodies that create and change one. The form makes bodies of its
 * fields: a new record is sent what has a value, a changed one the first members of the paths whose fields changed
 * (`/defaults/metadata` sends all fields below `/defaults`, because the API replaces such a member as a whole).
 */
export interface Resource<R extends object, C = unknown, U = unknown> {
  /** Key of what is kept in memory, and of the list's place: `workspaces`. */
  readonly name: string;
  /** `workspace`, in messages and buttons. */
  readonly noun: string;
  readonly title: string;
  readonly intro?: ReactNode;
  /** Says what to do while there are none. */
  readonly empty?: ReactNode;
  /** `resource_type` in the audit trail. */
  readonly audit?: string;
  /** Names the record in calls and in the address. */
  id(record: R): string;
  /** Its name for people. */
  label(record: R): string;
  list(query: ListQuery): Promise<Listed<R>>;
  /** Whether `list` searches. Without it, up to 1000 records are read and searched here. */
  readonly searches?: boolean;
  /** Texts that the search here looks at, besides the label. */
  words?(record: R): readonly (string | null | undefined)[];
  /** Choices of the list's `status`, the first is the default. */
  readonly statuses?: readonly (readonly [value: string, text: string])[];
  /** Callers of the organisation choose a workspace above the list. */
  readonly inWorkspace?: boolean;
  readonly columns: Columns<R>;
  get(id: string, workspace: string): Promise<Versioned<R>>;
  readonly create?: {
    readonly scopes: readonly string[];
    run(body: C): Promise<unknown>;
    /** Is shown once instead of the form, say for a secret. Default: the new record is opened. */
    after?(reply: unknown, close: () => void): ReactNode;
  };
  readonly update?: {
    readonly scopes: readonly string[];
    run(id: string, body: U, headers: VersionHeaders): Promise<unknown>;
    /** Why this record cannot be changed, say because it is archived. */
    refused?(record: R): string | undefined;
  };
  readonly remove?: {
    readonly scopes: readonly string[];
    /** Text of the button: Delete, Archive, Revoke. */
    readonly action: string;
    /** The loss, and whether it can be undone. */
    readonly text: ReactNode | ((record: R) => ReactNode);
    /** It is typed before, as it cannot be had back. */
    typed?(record: R): string;
    run(id: string, headers: VersionHeaders): Promise<unknown>;
    /** False: there is no such button for this record. */
    shown?(record: R): boolean;
  };
  readonly sections: readonly Section<R>[];
  /** Stands above the fields of the details: what is used, what is wrong. */
  details?(record: R, tools: Tools): ReactNode;
  /** More buttons of one record. */
  actions?(record: R, tools: Tools): ReactNode;
  /** More tabs of the details: history, access. */
  readonly tabs?: readonly {
    readonly key: string;
    readonly text: string;
    readonly scopes?: readonly string[];
    body(record: R): ReactNode;
  }[];
  /** More controls above the list. */
  readonly filters?: ReactNode;
}

/** `if-match`, when the version is known. */
export type VersionHeaders = Readonly<Record<string, string>>;

/** What buttons of a record may do. */
export interface Tools {
  /** Reads the record and the lists again, after a change. */
  refresh(): Promise<void>;
  readonly version: string | undefined;
}

export interface ListQuery {
  /** From 0. */
  readonly page: number;
  readonly size: number;
  readonly search: string;
  readonly status: string;
  /** Id or slug; empty: all that the caller sees. */
  readonly workspace: string;
}

export interface Listed<R> {
  readonly total: number;
  readonly data: readonly R[];
}

/** A record with the version that a change of it names. */
export interface Versioned<R> {
  readonly record: R;
  readonly version: string | undefined;
}

/** Fields below one title. */
export interface Section<R> {
  readonly title: string;
  readonly help?: ReactNode;
  /** Closed until somebody opens it or a field has a value or a fault. */
  readonly folded?: boolean;
  readonly fields: readonly FormField<R>[];
}

/** Values of a form by the paths of its fields. */
export type Values = Readonly<Record<string, unknown>>;

/** One choice of a list. */
export interface Option {
  readonly value: string;
  readonly text: string;
  readonly note?: string;
}

/** A list of records, in which one of them is found by a part of its name. */
export interface Finder {
  /** Key of what is kept in memory of it. */
  readonly name: string;
  /** Callers with none of these scopes may not read the list: nothing is asked for them, and they type what names a record. */
  readonly scopes: readonly string[];
  /** What names a record in the field. */
  readonly by: 'id' | 'slug';
  /** Those whose names have the text. */
  find(text: string): Promise<readonly Option[]>;
}

/** What a field may look at. */
export interface Situation<R> {
  readonly values: Values;
  /** Undefined for a new one. */
  readonly record: R | undefined;
  readonly caller: Caller;
}

interface Base<R> {
  /** Its place in the body, as a JSON pointer, and in the record unless `from` reads it. */
  readonly path: string;
  readonly label: string;
  readonly help?: ReactNode;
  readonly required?: boolean;
  /** `create`: it is given once and shown afterwards; `update`: it is not there before. */
  readonly only?: 'create' | 'update';
  /** Whether it is in the form now. */
  shown?(situation: Situation<R>): boolean;
  /** Its value in a record. */
  from?(record: R): unknown;
  /** In a new record. */
  readonly initial?: unknown;
  /** The value in the body; default: as the kind says. Undefined leaves it out. */
  send?(value: unknown): unknown;
  /** In the details; default: as the kind says. Null hides it. */
  show?(record: R): ReactNode;
  /** An emptied text is sent as null unless this says otherwise. */
  readonly empty?: 'null' | 'text' | 'omit';
  /** It uses the whole width. */
  readonly wide?: boolean;
}

interface Kinds<R> {
  text: { readonly placeholder?: string; readonly mono?: boolean };
  email: { readonly placeholder?: string };
  long: { readonly placeholder?: string; readonly mono?: boolean };
  number: { readonly min?: number; readonly max?: number; readonly unit?: string; readonly whole?: boolean };
  /** US dollars. */
  money: { readonly min?: number };
  toggle: object;
  choice: { readonly options: readonly Option[] | ((situation: Situation<R>) => readonly Option[]) };
  choices: { readonly options: readonly Option[] | ((situation: Situation<R>) => readonly Option[]) };
  /** A moment, in the user's zone. */
  time: object;
  /** Scopes of keys, in groups. */
  scopes: {
    readonly options: (situation: Situation<R>) => readonly string[];
    readonly presets?: readonly { readonly text: string; readonly scopes: readonly string[] }[];
  };
  /** Another record, found by typing; `several`: a list of them. */
  reference: {
    readonly several?: boolean;
    readonly find: Finder;
    /** The text without a choice. */
    readonly none?: string;
  };
  /** Is written and never read: the record has it masked. */
  secret: { readonly long?: boolean };
  /** Names with texts. */
  pairs: { readonly secret?: boolean };
  /** Several texts, one a line. */
  lines: {
    readonly placeholder?: string;
    /** Sends null when there is no line. Default: an empty list. */
    readonly noneIsNull?: boolean;
  };
  json: object;
  /** One usage limit, or a list of them. */
  usage: { readonly several?: boolean };
  /** Rate limits. */
  rates: object;
  /** A control of the page's own. */
  own: {
    control(props: {
      readonly value: unknown;
      readonly onChange: (value: unknown) => void;
      readonly situation: Situation<R>;
      readonly id: string;
      readonly disabled: boolean;
    }): ReactNode;
  };
}

type KindName = keyof Kinds<object>;

/** A field of a form; its `kind` says which control it has and what else may be said. */
export type FormField<R> = { [K in KindName]: Base<R> & { readonly kind: K } & Kinds<R>[K] }[KindName];
export type FieldOf<R, K extends KindName> = Extract<FormField<R>, { kind: K }>;

/** A record and its version of an answer. */
export async function versioned<T>(call: Promise<{ data?: T; response: Response }>): Promise<Versioned<T>> {
  const { data, response } = await call;
  return { record: data as T, version: response.headers.get('etag') ?? undefined };
}
