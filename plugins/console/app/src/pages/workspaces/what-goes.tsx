import { useQueries } from '@tanstack/react-query';
import { api, dataOf } from '@/api/client';
import { useSession } from '@/api/session';
import { workspaces as texts } from '@/texts/workspaces';

const words = texts.goes;
const keyScopes = ['workspace_service_api_keys.list', 'workspace_user_api_keys.list'];

/** What a workspace has that ends with it, as far as the caller may see it. */
export function WhatGoes({ id }: { readonly id: string }) {
  const { may } = useSession();
  const params = { query: { workspace_id: id, page_size: 1 } };
  const lists: readonly (readonly [
    name: keyof typeof words.kinds,
    scopes: readonly string[],
    total: () => Promise<{ readonly total: number }>,
  ])[] = [
    ['keys', keyScopes, () => dataOf(api.GET('/api-keys', { params }))],
    [
      'members',
      ['workspace_users.list'],
      () =>
        dataOf(
          api.GET('/admin/workspaces/{workspaceId}/users', {
            params: { path: { workspaceId: id }, query: { page_size: 1 } },
          }),
        ),
    ],
    ['configs', ['configs.list'], () => dataOf(api.GET('/configs', { params }))],
    ['prompts', ['prompts.list'], () => dataOf(api.GET('/prompts', { params }))],
    ['providers', ['providers.list'], () => dataOf(api.GET('/providers', { params }))],
    ['servers', ['mcp_servers.list'], () => dataOf(api.GET('/mcp-servers', { params }))],
  ];
  const found = useQueries({
    queries: lists.map(([name, scopes, total]) => ({
      queryKey: ['workspaces', 'goes', id, name],
      queryFn: async () => (await total()).total,
      enabled: may(...scopes),
      gcTime: 0,
    })),
  });
  const parts = lists.flatMap(([name], index) => {
    const total = found[index]?.data ?? 0;
    return total > 0 ? [words.kinds[name](total)] : [];
  });
  return (
    <div className="grid gap-2">
      <p>{texts.archiveText}</p>
      {parts.length > 0 && (
        <div>
          <p>{words.title}</p>
          <ul aria-label={words.title} className="text-ink list-disc pl-5">
            {parts.map((part) => (
              <li key={part}>{part}</li>
            ))}
          </ul>
        </div>
      )}
    </div>
  );
}
