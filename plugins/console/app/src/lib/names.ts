import { useMemo } from 'react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { api, dataOf } from '@/api/client';
import { useSession } from '@/api/session';

/** The caller with one of them lists keys. */
export const keyScopes = ['organisation_service', 'workspace_service', 'workspace_user'].map(
  (type) => `${type}_api_keys.list`,
);
const longLivedMs = 60_000;
/** As many ids as the API takes at once. */
const mostIds = 100;

/** Names of keys by their ids, as far as the caller may see them. The caller's own one is known, also when no list has it. */
export function useKeyNames(ids: readonly string[]): ReadonlyMap<string, string> {
  const { may, caller } = useSession();
  const wanted = [...new Set(ids)]
    .filter((id) => /^[\w-]{1,64}$/.test(id))
    .sort()
    .slice(0, mostIds);
  const { data } = useQuery({
    queryKey: ['key-names', wanted],
    queryFn: ({ signal }) =>
      dataOf(
        api.GET('/api-keys', { params: { query: { ids: wanted.join(','), page_size: mostIds } }, signal }),
      ),
    enabled: wanted.length > 0 && may(...keyScopes),
    staleTime: longLivedMs,
    placeholderData: keepPreviousData,
    select: (list) => new Map(list.data.map(({ id, name }) => [id, name])),
    retry: false,
  });
  return useMemo(
    () => (caller === null ? (data ?? nothing) : new Map([[caller.id, caller.name], ...(data ?? nothing)])),
    [caller, data],
  );
}

/** Names of people by their ids, as far as the caller may see them; without a name, their address. */
export function useUserNames(): ReadonlyMap<string, string> {
  const { may, caller } = useSession();
  const { data } = useQuery({
    queryKey: ['user-names'],
    queryFn: ({ signal }) =>
      dataOf(api.GET('/admin/users', { params: { query: { page_size: mostIds } }, signal })),
    enabled: may('organisation_users.list'),
    staleTime: longLivedMs,
    select: (list) =>
      new Map(
        list.data.map(({ id, first_name: first, last_name: last, email }) => [
          id,
          `${first} ${last}`.trim() || email,
        ]),
      ),
    retry: false,
  });
  return useMemo(
    () =>
      caller === null ? (data ?? nothing) : new Map([[caller.user_id, caller.name], ...(data ?? nothing)]),
    [caller, data],
  );
}

/** Names of workspaces by their ids; those of archived ones for owners and admins, whom the gateway shows them alone. */
export function useWorkspaceNames(): ReadonlyMap<string, string> {
  const { may, caller } = useSession();
  const status = caller?.role === 'owner' || caller?.role === 'admin' ? 'active,archived' : 'active';
  const { data } = useQuery({
    queryKey: ['workspace-names', status],
    queryFn: ({ signal }) =>
      dataOf(api.GET('/workspaces', { params: { query: { page_size: mostIds, status } }, signal })),
    enabled: may('workspaces.list'),
    staleTime: longLivedMs,
    select: (list) => new Map(list.data.map(({ id, name }) => [id, name])),
    retry: false,
  });
  return data ?? nothing;
}

/** Names the groups of a usage policy, `api_key:ID` or `workspace_id:ID`; others stay as they are. */
export function useGroupNames(groups: readonly string[]): (group: string) => string {
  const keys = useKeyNames(groups.flatMap((group) => /^api_key:([\w-]+)$/.exec(group)?.[1] ?? []));
  const workspaces = useWorkspaceNames();
  return (group) => {
    const [, kind = '', id = ''] = /^([^:]+):(.*)$/.exec(group) ?? [];
    return (kind === 'api_key' ? keys : kind === 'workspace_id' ? workspaces : nothing).get(id) ?? group;
  };
}

const nothing: ReadonlyMap<string, string> = new Map();

/** The start of an id: enough to tell it from others. */
export function shortId(id: string): string {
  return /^[0-9a-f]{8}-/.test(id) ? id.slice(0, 8) : id;
}
