import { api, dataOf } from '@/api/client';
import type { operations } from '@/api/schema.gen';
import { count } from '@/lib/format';
import { Conditions, Groups, shownConditions, shownGroups, withoutEmpty } from '@/pages/limits/rules';
import { Entities, GroupUsage, RateEntities } from '@/pages/limits/entities';
import { workspaceField } from '@/resource/common-fields';
import { type FormField, type Resource, type Section, versioned } from '@/resource/declaration';
import { amount } from '@/resource/limits';
import { limits as texts } from '@/texts/limits';
import { resource } from '@/texts/resource';
import { Badge } from '@/ui/small';

type BodyOf<O extends { requestBody: { content: { 'application/json': unknown } } }> =
  O['requestBody']['content']['application/json'];
type UsagePolicy =
  operations['usage_limit_policies.list']['responses'][200]['content']['application/json']['data'][number];
type RatePolicy =
  operations['rate_limit_policies.list']['responses'][200]['content']['application/json']['data'][number];
type Policy = UsagePolicy | RatePolicy;

const words = texts.field;
const { rates } = resource;
const { cost, tokens, requests } = words.types;
const usageTypes = { cost, tokens, requests };
const rateTypes = { requests, tokens };
const optionsOf = (of: Readonly<Record<string, string>>) =>
  Object.entries(of).map(([value, text]) => ({ value, text }));

function head<R extends Policy>(): FormField<R>[] {
  return [
    { kind: 'text', path: '/name', label: words.name, required: true },
    workspaceField<R>({ label: words.workspace, none: words.workspaceNone }),
    {
      ...{ kind: 'choice', path: '/target', label: words.target, only: 'create', initial: 'llm' },
      options: optionsOf(words.targets),
    },
  ];
}

function rules<R extends Policy>(): Section<R> {
  return {
    title: texts.section.who,
    fields: [
      {
        ...{ kind: 'own', path: '/conditions', label: words.conditions, help: words.conditionsHelp },
        ...{ wide: true, required: true, initial: [{ key: 'workspace_id', value: '*' }] },
        send: withoutEmpty,
        show: ({ conditions }) => shownConditions(conditions),
        control: (props) => <Conditions {...props} />,
      },
      {
        ...{ kind: 'own', path: '/group_by', label: words.groups, help: words.groupsHelp },
        ...{ wide: true, required: true, initial: [{ key: 'api_key' }] },
        show: ({ group_by: groups }) => shownGroups(groups),
        control: (props) => <Groups {...props} />,
      },
    ],
  };
}

const shared = {
  empty: '',
  inWorkspace: true,
  statuses: [
    ['active', texts.statuses.active],
    ['archived', texts.statuses.archived],
  ],
  id: ({ id }: Policy) => id,
  label: ({ name }: Policy) => name,
  words: ({ id, conditions }: Policy) => [id, JSON.stringify(conditions)],
} as const;

function columnsOf<R extends Policy>(limit: (policy: R) => string): Resource<R>['columns'] {
  return [
    {
      header: texts.column.name,
      cell: ({ row }) => <span className="font-medium">{row.original.name}</span>,
    },
    { header: texts.column.limit, cell: ({ row }) => limit(row.original) },
    { header: texts.column.conditions, cell: ({ row }) => shownConditions(row.original.conditions) },
    { header: texts.column.groups, cell: ({ row }) => shownGroups(row.original.group_by) },
    {
      header: texts.column.status,
      meta: { isState: true },
      cell: ({ row: { original } }) => (
        <Badge tone={original.status === 'active' ? 'good' : 'neutral'}>
          {texts.statuses[original.status]}
        </Badge>
      ),
    },
  ];
}

function queryOf({ page, size, status, workspace }: Parameters<Resource<Policy>['list']>[0]) {
  return {
    ...{ current_page: page, page_size: size },
    status: status === 'archived' ? ('archived' as const) : ('active' as const),
    ...(workspace !== '' && { workspace_id: workspace }),
  };
}

const removal = { scopes: ['policies.delete'], action: texts.archive, text: texts.archiveText };
const isActive = ({ status }: Policy): boolean => status === 'active';
const refused = ({ status }: Policy): string | undefined =>
  status === 'archived' ? texts.archived : undefined;

const usageAt = (policyUsageLimitsId: string) => ({ path: { policyUsageLimitsId } });

export const usagePolicies: Resource<
  UsagePolicy,
  BodyOf<operations['usage_limit_policies.create']>,
  BodyOf<operations['usage_limit_policies.update']>
> = {
  ...shared,
  ...{ ...texts.usage, name: 'usage-policies', audit: 'usage_limit_policies' },
  list: (query) => dataOf(api.GET('/policies/usage-limits', { params: { query: queryOf(query) } })),
  get: (id) => versioned(api.GET('/policies/usage-limits/{policyUsageLimitsId}', { params: usageAt(id) })),
  columns: columnsOf((policy) => amount(policy.credit_limit, policy.type)),
  create: {
    scopes: ['policies.create'],
    run: (body) => dataOf(api.POST('/policies/usage-limits', { body })),
  },
  update: {
    ...{ scopes: ['policies.update'], refused },
    run: (id, body, headers) =>
      dataOf(api.PUT('/policies/usage-limits/{policyUsageLimitsId}', { params: usageAt(id), body, headers })),
  },
  remove: {
    ...{ ...removal, shown: isActive },
    run: (id, headers) =>
      dataOf(api.DELETE('/policies/usage-limits/{policyUsageLimitsId}', { params: usageAt(id), headers })),
  },
  sections: [
    { title: texts.section.policy, fields: head() },
    {
      title: texts.section.limit,
      fields: [
        {
          ...{ kind: 'choice', path: '/type', label: words.type, initial: 'cost', only: 'create' },
          options: ({ values }) =>
            optionsOf(values['/target'] === 'mcp_tools' ? { requests: words.types.calls } : usageTypes),
          show: ({ type, target }) => (target === 'mcp_tools' ? words.types.calls : usageTypes[type]),
        },
        {
          ...{ kind: 'number', path: '/credit_limit', label: words.amount, required: true, min: 0 },
          show: (policy) => amount(policy.credit_limit, policy.type),
        },
        {
          ...{ kind: 'number', path: '/alert_threshold', label: words.alert, help: words.alertHelp, min: 0 },
          show: ({ alert_threshold: alert, type }) => (typeof alert === 'number' ? amount(alert, type) : '–'),
        },
        {
          ...{ kind: 'choice', path: '/periodic_reset', label: words.reset, initial: 'monthly' },
          options: optionsOf(words.resets),
          show: ({ periodic_reset: reset, periodic_reset_days: days }) =>
            typeof days === 'number' ? null : words.resets[reset ?? ''],
        },
        {
          ...{ kind: 'number', path: '/periodic_reset_days', label: words.days, min: 1, max: 365 },
          shown: ({ values }) => (values['/periodic_reset'] ?? '') === '',
        },
        { kind: 'time', path: '/next_usage_reset_at', label: words.next, help: words.nextHelp },
      ],
    },
    rules(),
  ],
  tabs: [
    {
      ...{ key: 'usage', text: texts.groups.tab, scopes: ['policies.read'] },
      body: (policy) => <GroupUsage policy={policy} />,
    },
    {
      ...{ key: 'entities', text: texts.entities.tab, scopes: ['policies.read'] },
      body: (policy) => <Entities policy={policy} />,
    },
  ],
};

const rateAt = (rateLimitsPolicyId: string) => ({ path: { rateLimitsPolicyId } });

export const ratePolicies: Resource<
  RatePolicy,
  BodyOf<operations['rate_limit_policies.create']>,
  BodyOf<operations['rate_limit_policies.update']>
> = {
  ...shared,
  ...{ ...texts.rates, name: 'rate-policies', audit: 'rate_limit_policies' },
  list: (query) => dataOf(api.GET('/policies/rate-limits', { params: { query: queryOf(query) } })),
  get: (id) => versioned(api.GET('/policies/rate-limits/{rateLimitsPolicyId}', { params: rateAt(id) })),
  columns: columnsOf(({ value, type, unit }) =>
    rates.each(count(value), rates.types[type], rates.units[unit]),
  ),
  create: {
    scopes: ['policies.create'],
    run: (body) => dataOf(api.POST('/policies/rate-limits', { body })),
  },
  update: {
    ...{ scopes: ['policies.update'], refused },
    run: (id, body, headers) =>
      dataOf(api.PUT('/policies/rate-limits/{rateLimitsPolicyId}', { params: rateAt(id), body, headers })),
  },
  remove: {
    ...{ ...removal, shown: isActive },
    run: (id, headers) =>
      dataOf(api.DELETE('/policies/rate-limits/{rateLimitsPolicyId}', { params: rateAt(id), headers })),
  },
  sections: [
    { title: texts.section.policy, fields: head() },
    {
      title: texts.section.limit,
      fields: [
        { kind: 'number', path: '/value', label: words.amount, required: true, min: 0, whole: true },
        {
          ...{ kind: 'choice', path: '/type', label: words.type, initial: 'requests', only: 'create' },
          options: ({ values }) =>
            optionsOf(values['/target'] === 'mcp_tools' ? { requests: words.types.calls } : rateTypes),
        },
        {
          ...{ kind: 'choice', path: '/unit', label: words.unit, initial: 'rpm' },
          options: optionsOf(words.units),
        },
      ],
    },
    rules(),
  ],
  tabs: [
    {
      ...{ key: 'entities', text: texts.entities.tab, scopes: ['policies.read'] },
      body: (policy) => <RateEntities policy={policy} />,
    },
  ],
};
