import { createElement } from 'react';
import { api, dataOf } from '@/api/client';
import { isOfOrganisation } from '@/api/session';
import type { FieldOf, Finder, FormField, Option } from '@/resource/declaration';
import { WorkspaceName } from '@/resource/shown';
import { resource as texts } from '@/texts/resource';

/** Of a list that the gateway does not search: what has the text in its name or note. */
export function withText(options: readonly Option[], text: string): readonly Option[] {
  const wanted = text.trim().toLowerCase();
  return options.filter(({ text: name, note = '' }) => `${name} ${note}`.toLowerCase().includes(wanted));
}

/** Workspaces by their names. */
export const workspaceFinder: Finder = {
  ...{ name: 'workspaces', scopes: ['workspaces.list'], by: 'id' },
  async find(text) {
    const query = { page_size: 20, ...(text !== '' && { name: text }) };
    const { data } = await dataOf(api.GET('/workspaces', { params: { query } }));
    return data.map(({ id, name, slug }) => ({ value: id, text: name, note: slug }));
  },
};

/** Configs by their names; their slugs name them in requests. */
export const configFinder: Finder = {
  ...{ name: 'configs', scopes: ['configs.list'], by: 'slug' },
  async find(text) {
    const query = { page_size: 20, ...(text !== '' && { search: text }) };
    const { data } = await dataOf(api.GET('/configs', { params: { query } }));
    return data.map(({ name, slug }) => ({ value: slug, text: name, note: slug }));
  },
};

/** People of the organisation by their names or addresses. */
export const userFinder: Finder = {
  ...{ name: 'users', scopes: ['organisation_users.list'], by: 'id' },
  async find(text) {
    const { data } = await dataOf(api.GET('/admin/users', { params: { query: { page_size: 100 } } }));
    const users = data.map((user) => ({
      value: user.id,
      text: `${user.first_name} ${user.last_name}`.trim() || user.email,
      note: user.email,
    }));
    return withText(users, text);
  },
};

const organisationOnly = new RegExp(
  '^(organisation_(users|service_api_keys|settings|guardrails|exclusions)|audit_logs|plugins|deployments|secret_references)\\.' +
    '|^organisation_(integrations|mcp_integrations|agent_integrations)\\.(create|read|update|delete)$' +
    '|^workspaces\\.(create|update|delete)$',
);
const workspaceOnly = [
  ...['completions.write', 'completions.read', 'guardrails.invoke', 'mcp.invoke', 'agents.invoke'],
  ...['logs.write', 'feedbacks.write'],
];

/**
 * The scopes that a caller with `held` may give a key of the organisation or of a workspace. Admin keys give those of
 * sending requests, which they cannot hold.
 */
export function grantableScopes(held: readonly string[], ofOrganisation: boolean): readonly string[] {
  if (ofOrganisation) return held.filter((scope) => !workspaceOnly.includes(scope));
  const more = held.includes('organisation_settings.read') ? workspaceOnly : [];
  return [...new Set([...held, ...more])].filter((scope) => !organisationOnly.test(scope));
}

/** `/workspace_id` of a new record: callers of the organisation say it, others have theirs. */
export function workspaceField<R extends object>(more: Partial<FieldOf<R, 'reference'>> = {}): FormField<R> {
  return {
    ...{ kind: 'reference', path: '/workspace_id', label: texts.workspace, only: 'create' },
    shown: ({ caller }) => isOfOrganisation(caller),
    find: workspaceFinder,
    show(record) {
      const id = 'workspace_id' in record ? record.workspace_id : undefined;
      return typeof id === 'string' && id !== '' ? createElement(WorkspaceName, { id }) : (more.none ?? '–');
    },
    ...more,
  };
}
