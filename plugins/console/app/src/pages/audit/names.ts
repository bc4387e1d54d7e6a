import { useMemo } from 'react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { api, dataOf } from '@/api/client';
import type { operations } from '@/api/schema.gen';
import { useSession } from '@/api/session';
import { list } from '@/lib/format';
import { useKeyNames, useUserNames, useWorkspaceNames } from '@/lib/names';
import { first, type Found, found, namedKinds } from '@/resource/named-kinds';
import { wholeOf } from '@/resource/who-changed';

export type Entry =
  operations['audit_logs.list']['responses'][200]['content']['application/json']['records'][number];

type Reader = Pick<(typeof namedKinds)[number], 'scopes' | 'read'>;

const named = (data: readonly { readonly id: string; readonly name: string }[]) => found({ data });
const ofPrompts = ['prompts.list'];
const ofPolicies = ['policies.list'];

/** Kinds whose names other pages read as well, each with a hook. */
const shared = new Set(['api_keys', 'users', 'workspaces']);
/** Lists with the names of records of other kinds. */
const readers: ReadonlyMap<string, Reader> = new Map<string, Reader>([
  ...namedKinds.filter(({ kind }) => !shared.has(kind)).map((one) => [one.kind, one] as const),
  ['collections', { scopes: ofPrompts, read: () => dataOf(api.GET('/collections', first)).then(found) }],
  ['labels', { scopes: ofPrompts, read: () => dataOf(api.GET('/labels', first)).then(found) }],
  ['prompt_partials', { scopes: ofPrompts, read: () => dataOf(api.GET('/prompts/partials')).then(named) }],
  [
    'rate_limit_policies',
    { scopes: ofPolicies, read: () => dataOf(api.GET('/policies/rate-limits', first)).then(found) },
  ],
  [
    'usage_limit_policies',
    { scopes: ofPolicies, read: () => dataOf(api.GET('/policies/usage-limits', first)).then(found) },
  ],
  [
    'secret_references',
    {
      scopes: ['secret_references.list'],
      read: () => dataOf(api.GET('/secret-references', first)).then(found),
    },
  ],
  [
    'mcp_integrations',
    {
      scopes: ['organisation_mcp_integrations.list', 'workspace_mcp_integrations.list'],
      read: () => dataOf(api.GET('/mcp-integrations', first)).then(found),
    },
  ],
  [
    'mcp_virtual_servers',
    { scopes: ['mcp_servers.list'], read: () => dataOf(api.GET('/mcp-virtual-servers', first)).then(found) },
  ],
  [
    'invites',
    {
      scopes: ['organisation_users.list'],
      async read() {
        const { data } = await dataOf(api.GET('/admin/users/invites', first));
        return data.map(({ id, email }) => ({ id, text: email, words: '' }));
      },
    },
  ],
]);

/** The kind of the records whose ids an entry carries. */
function kindOf({ resource_type: kind }: Entry): string {
  if (kind === 'workspace_users') return 'users';
  return kind === 'virtual_keys' ? 'providers' : wholeOf(kind);
}

/** Ids of the records that were changed: of people, one entry may have several. */
function idsOf({ resource_id: id }: Entry): readonly string[] {
  return id === '' ? [] : id.split(',');
}

/** The name that the body of a change gives its record. */
function recordedName(entry: Entry): string | undefined {
  // Of a part, it would be the name of something within.
  if (kindOf(entry) !== entry.resource_type) return undefined;
  try {
    const body: unknown = JSON.parse(entry.request_body);
    if (typeof body !== 'object' || body === null) return undefined;
    const said = 'name' in body ? body.name : 'email' in body ? body.email : undefined;
    return typeof said === 'string' && said !== '' ? said : undefined;
  } catch {
    // There was no body, or it was cut.
    return undefined;
  }
}

/** Names that changes have given their records, by kinds and ids; the newest ones stand first. */
function recordedNames(entries: readonly Entry[]): ReadonlyMap<string, string> {
  const names = new Map<string, string>();
  for (const entry of entries) {
    const name = entry.response_status_code < 400 ? recordedName(entry) : undefined;
    const place = `${entry.resource_type} ${entry.resource_id}`;
    if (name !== undefined && !names.has(place)) names.set(place, name);
  }
  return names;
}

export interface Names {
  /** What was changed, as far as a list or another entry says it. */
  ofRecord(entry: Entry): string | undefined;
  ofActor(entry: Entry): string;
  ofKey(id: string): string | undefined;
}

/**
 * Names for the ids in entries: those that records have now, and those that entries gave them. Each kind is one list, which
 * is read when an entry is about it and the caller may read it.
 */
export function useNames(entries: readonly Entry[]): Names {
  const { may } = useSession();
  const wanted = [...new Set(entries.filter(({ resource_id: id }) => id !== '').map(kindOf))]
    .filter((kind) => may(...(readers.get(kind)?.scopes ?? [])))
    .sort();
  const { data: listed } = useQuery({
    queryKey: ['audit', 'names', wanted],
    queryFn: () => readNames(wanted),
    enabled: wanted.length > 0,
    placeholderData: keepPreviousData,
  });
  const people = useUserNames();
  const workspaces = useWorkspaceNames();
  const keys = useKeyNames(
    entries.flatMap((entry) => [
      ...(kindOf(entry) === 'api_keys' ? idsOf(entry) : []),
      ...(entry.user_name === '' && entry.user_type === 'api_key' ? [entry.user_id] : []),
      entry.api_key_id,
    ]),
  );
  const recorded = useMemo(() => recordedNames(entries), [entries]);
  return useMemo(() => {
    const own = new Map([
      ['api_keys', keys],
      ['users', people],
      ['workspaces', workspaces],
    ]);
    return {
      ofRecord(entry) {
        const kind = kindOf(entry);
        const names = own.get(kind) ?? listed?.get(kind);
        const all = idsOf(entry);
        const known = all.map((id) => names?.get(id) ?? recorded.get(`${kind} ${id}`));
        if (known.every((name) => name === undefined)) return undefined;
        return list(known.map((name, index) => name ?? all[index] ?? ''));
      },
      ofActor: ({ user_name: name, user_id: id, user_type: type }) =>
        name || ((type === 'user' ? people : keys).get(id) ?? id),
      ofKey: (id) => keys.get(id),
    };
  }, [keys, listed, people, recorded, workspaces]);
}

async function readNames(
  kinds: readonly string[],
): Promise<ReadonlyMap<string, ReadonlyMap<string, string>>> {
  // A kind that cannot be read leaves the others.
  const all = await Promise.allSettled(
    kinds.map(async (kind) => {
      const records: readonly Found[] = (await readers.get(kind)?.read()) ?? [];
      return [kind, new Map(records.map(({ id, text }) => [id, text]))] as const;
    }),
  );
  return new Map(all.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : [])));
}

/** As many entries of one record as the API lists at once. */
const mostEntries = 100;

/** The last name that the audit trail knows of the record of an entry; it is asked while nothing else names it. */
export function useLastName(entry: Entry, wanted: boolean): string | undefined {
  const ids = idsOf(entry);
  const kind = kindOf(entry);
  const { data } = useQuery({
    queryKey: ['audit', 'last-name', kind, ids],
    queryFn: async () => {
      const query = { resource_type: kind, resource_id: ids[0] ?? '', page_size: mostEntries };
      const { records } = await dataOf(api.GET('/audit-logs', { params: { query } }));
      return [...recordedNames(records).values()][0] ?? null;
    },
    enabled: wanted && ids.length === 1 && (shared.has(kind) || readers.has(kind)),
  });
  return data ?? undefined;
}
