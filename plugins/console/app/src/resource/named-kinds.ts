import { api, dataOf } from '@/api/client';
import { keyScopes } from '@/lib/names';
import { common } from '@/texts/common';

const { nav } = common;

/** As much of a record as it takes to find it. */
export interface Found {
  readonly id: string;
  readonly text: string;
  /** Other words for it: its slug, its address. */
  readonly words: string;
}

interface Listed {
  readonly data: readonly { readonly id: string; readonly name: string; readonly slug?: string }[];
}

/** As many as the API lists at once. */
export const first = { params: { query: { page_size: 100 } } } as const;

export const found = ({ data }: Listed): readonly Found[] =>
  data.map(({ id, name, slug = '' }) => ({ id, text: name, words: `${slug} ${id}` }));

interface NamedKind {
  /** As the audit trail calls it. */
  readonly kind: string;
  readonly text: string;
  /** Callers with none of them may not read the list. */
  readonly scopes: readonly string[];
  readonly read: () => Promise<readonly Found[]>;
}

/** Kinds of records that are found by name: the first hundred of each. */
export const namedKinds: readonly NamedKind[] = [
  {
    ...{ kind: 'api_keys', text: nav.keys, scopes: keyScopes },
    read: () => dataOf(api.GET('/api-keys', first)).then(found),
  },
  {
    ...{ kind: 'configs', text: nav.configs, scopes: ['configs.list'] },
    read: () => dataOf(api.GET('/configs', first)).then(found),
  },
  {
    ...{ kind: 'prompts', text: nav.prompts, scopes: ['prompts.list'] },
    read: () => dataOf(api.GET('/prompts', first)).then(found),
  },
  {
    ...{ kind: 'guardrails', text: nav.guardrails },
    scopes: ['guardrails.list', 'organisation_guardrails.list'],
    read: () => dataOf(api.GET('/guardrails', first)).then(found),
  },
  {
    ...{ kind: 'integrations', text: nav.integrations },
    scopes: ['organisation_integrations.list', 'workspace_integrations.list'],
    read: () => dataOf(api.GET('/integrations', first)).then(found),
  },
  {
    ...{ kind: 'providers', text: nav.providers, scopes: ['providers.list'] },
    read: () => dataOf(api.GET('/providers', first)).then(found),
  },
  {
    ...{ kind: 'mcp_servers', text: nav.mcp, scopes: ['mcp_servers.list'] },
    read: () => dataOf(api.GET('/mcp-servers', first)).then(found),
  },
  {
    ...{ kind: 'workspaces', text: nav.workspaces, scopes: ['workspaces.list'] },
    read: () => dataOf(api.GET('/workspaces', first)).then(found),
  },
  {
    ...{ kind: 'users', text: nav.people, scopes: ['organisation_users.list'] },
    read: async () => {
      const { data } = await dataOf(api.GET('/admin/users', first));
      return data.map(({ id, first_name: one, last_name: other, email }) => ({
        ...{ id, text: `${one} ${other}`.trim() || email, words: `${email} ${id}` },
      }));
    },
  },
];
