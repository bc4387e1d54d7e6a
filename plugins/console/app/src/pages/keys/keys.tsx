import { Link } from '@tanstack/react-router';
import { api, dataOf } from '@/api/client';
import type { operations } from '@/api/schema.gen';
import { isOfOrganisation } from '@/api/session';
import { KeyActions } from '@/pages/keys/actions';
import { configFinder, userFinder, grantableScopes, workspaceField } from '@/resource/common-fields';
import { type Resource, type Situation, versioned } from '@/resource/declaration';
import { ShownLimits, UsageBar } from '@/resource/limits';
import { ResourcePage } from '@/resource/page';
import { Secret } from '@/resource/secret';
import { keys as texts } from '@/texts/keys';
import { Badge, Code, Time } from '@/ui/small';

export type Key = operations['api_keys.get']['responses'][200]['content']['application/json'];
type Body<O extends { requestBody: { content: { 'application/json': unknown } } }> =
  O['requestBody']['content']['application/json'];
type Create = Body<operations['api_keys.create_workspace_user']> & { readonly kind?: Key['type'] };
type Update = Body<operations['api_keys.update']>;

const types = ['workspace-service', 'workspace-user', 'organisation-service'] as const;
const scopeOf = {
  'workspace-service': 'workspace_service_api_keys',
  'workspace-user': 'workspace_user_api_keys',
  'organisation-service': 'organisation_service_api_keys',
};
const scopesFor = (action: string): string[] => types.map((type) => `${scopeOf[type]}.${action}`);

function kindOf({ record, values }: Situation<Key>): string {
  return record?.type ?? String(values['/kind'] ?? '');
}

async function create({ kind = 'workspace-service', user_id: user, workspace_id: place, ...body }: Create) {
  const rest = { ...body, name: body.name, scopes: body.scopes };
  if (kind === 'organisation-service')
    return dataOf(
      api.POST('/api-keys/organisation/service', {
        body: { ...rest, type: 'organisation', 'sub-type': 'service' },
      }),
    );
  const own = { ...rest, type: 'workspace' as const, ...(place !== undefined && { workspace_id: place }) };
  if (kind === 'workspace-service')
    return dataOf(api.POST('/api-keys/workspace/service', { body: { ...own, 'sub-type': 'service' } }));
  return dataOf(
    api.POST('/api-keys/workspace/user', {
      body: { ...own, 'sub-type': 'user', ...(user !== undefined && { user_id: user }) },
    }),
  );
}

const see = ['logs.list', 'logs.view', 'logs.read', 'analytics.view', 'feedbacks.read'];
const send = ['completions.write', 'models.list', 'mcp.invoke', 'feedbacks.write'];
const tones = { active: 'good', exhausted: 'bad', expired: 'neutral' } as const;

const keys: Resource<Key, Create, Update> = {
  ...{ name: 'keys', noun: texts.noun, title: texts.title, intro: texts.intro, empty: texts.empty },
  ...{ audit: 'api_keys', inWorkspace: true },
  id: ({ id }) => id,
  label: ({ name }) => name,
  words: ({ id, key, description, type }) => [id, key, description, texts.kinds[type]],
  list: ({ page, size, workspace }) =>
    dataOf(
      api.GET('/api-keys', {
        params: {
          query: {
            ...{ current_page: page, page_size: size },
            ...(workspace !== '' && { workspace_id: workspace }),
          },
        },
      }),
    ),
  get: (id) => versioned(api.GET('/api-keys/{id}', { params: { path: { id } } })),
  columns: [
    {
      header: texts.column.name,
      cell: ({ row }) => <span className="font-medium">{row.original.name}</span>,
    },
    { header: texts.column.type, cell: ({ row }) => texts.kinds[row.original.type] },
    {
      header: texts.column.status,
      meta: { isState: true },
      cell: ({ row: { original } }) => (
        <Badge tone={tones[original.status]}>{texts.status[original.status]}</Badge>
      ),
    },
    {
      header: texts.column.used,
      cell: ({ row: { original } }) =>
        original.usage_limits && (
          <UsageBar
            small
            used={original.current_usage ?? 0}
            limit={original.usage_limits.credit_limit}
            type={original.usage_limits.type}
            alert={original.usage_limits.alert_threshold}
          />
        ),
    },
    {
      header: texts.column.expires,
      cell: ({ row: { original } }) =>
        original.expires_at === null ? (
          <span className="text-soft">{texts.never}</span>
        ) : (
          <Time iso={original.expires_at} ago />
        ),
    },
    {
      header: texts.column.secret,
      cell: ({ row }) => <code className="font-mono text-xs">{row.original.key}</code>,
    },
    { header: texts.column.changed, cell: ({ row }) => <Time iso={row.original.last_updated_at} ago /> },
  ],
  create: {
    scopes: scopesFor('create'),
    run: create,
    after: (reply, close) =>
      typeof reply === 'object' && reply !== null && 'key' in reply ? (
        <Secret secret={String(reply.key)} onDone={close} />
      ) : undefined,
  },
  update: {
    scopes: scopesFor('update'),
    run: (id, body, headers) =>
      dataOf(api.PUT('/api-keys/{id}', { params: { path: { id } }, body, headers })),
  },
  remove: {
    ...{ scopes: scopesFor('delete'), action: texts.revoke, text: texts.revokeText },
    typed: ({ name }) => name,
    run: (id, headers) => dataOf(api.DELETE('/api-keys/{id}', { params: { path: { id } }, headers })),
  },
  sections: [
    {
      title: texts.section.key,
      fields: [
        {
          ...{ kind: 'choice', path: '/kind', label: texts.field.kind, help: texts.field.kindHelp },
          ...{ initial: 'workspace-service', only: 'create' },
          from: ({ type }) => type,
          show: ({ type }) => texts.kinds[type],
          options: ({ caller }) =>
            types
              .filter((type) => caller.scopes.includes(`${scopeOf[type]}.create`))
              .map((type) => ({ value: type, text: texts.kinds[type] })),
        },
        { kind: 'text', path: '/name', label: texts.field.name, required: true },
        workspaceField({
          label: texts.field.workspace,
          required: true,
          shown: (situation) =>
            (situation.record !== undefined || isOfOrganisation(situation.caller)) &&
            kindOf(situation) !== 'organisation-service',
        }),
        {
          ...{ kind: 'reference', path: '/user_id', label: texts.field.user, only: 'create' },
          shown: (situation) => kindOf(situation) === 'workspace-user',
          find: userFinder,
        },
        { kind: 'time', path: '/expires_at', label: texts.field.expires, help: texts.field.expiresHelp },
        { kind: 'long', path: '/description', label: texts.field.description },
      ],
    },
    {
      title: texts.section.scopes,
      fields: [
        {
          ...{ kind: 'scopes', path: '/scopes', label: texts.field.scopes, required: true },
          initial: send,
          options: (situation) =>
            grantableScopes(situation.caller.scopes, kindOf(situation) === 'organisation-service'),
          presets: [
            { text: texts.presets.send, scopes: send },
            { text: texts.presets.sendAndSee, scopes: [...send, ...see] },
            { text: texts.presets.see, scopes: see },
            {
              text: texts.presets.administer,
              scopes: [
                ...['create', 'read', 'update', 'delete', 'list', 'rotate'].flatMap((action) =>
                  scopesFor(action),
                ),
                ...['create', 'read', 'update', 'delete', 'list'].flatMap((action) => [
                  `organisation_users.${action}`,
                  `workspace_users.${action}`,
                ]),
              ],
            },
          ],
        },
      ],
    },
    {
      title: texts.section.limits,
      fields: [
        {
          ...{ kind: 'usage', path: '/usage_limits', label: texts.field.usage, help: texts.field.usageHelp },
          // The bar stands above.
          show: ({ usage_limits: limit }) => (
            <ShownLimits limits={limit === null ? [] : [{ ...limit, current_usage: null }]} />
          ),
        },
        { kind: 'rates', path: '/rate_limits', label: texts.field.rates },
      ],
    },
    {
      ...{ title: texts.section.defaults, folded: true },
      fields: [
        {
          ...{ kind: 'pairs', path: '/defaults/metadata', label: texts.field.metadata },
          help: texts.field.metadataHelp,
        },
        {
          ...{ kind: 'reference', path: '/defaults/config_id', label: texts.field.config },
          help: texts.field.configHelp,
          find: configFinder,
        },
        {
          ...{ kind: 'lines', path: '/defaults/allowed_models', label: texts.field.models },
          ...{ help: texts.field.modelsHelp, noneIsNull: true },
        },
        {
          ...{ kind: 'choice', path: '/defaults/log_bodies', label: texts.field.bodies },
          help: texts.field.bodiesHelp,
          options: Object.entries(texts.bodies).map(([value, text]) => ({ value, text })),
          from: ({ defaults }) => (defaults.log_bodies === false ? 'no' : ''),
          send: (value) => (value === 'no' ? false : undefined),
          show: ({ defaults }) => texts.bodies[defaults.log_bodies === false ? 'no' : ''],
        },
        {
          ...{ kind: 'toggle', path: '/defaults/allow_config_override', label: texts.field.override },
          initial: true,
        },
      ],
    },
    {
      ...{ title: texts.section.rotation, folded: true },
      fields: [
        {
          ...{ kind: 'choice', path: '/rotation_policy', label: texts.field.rotation },
          options: Object.entries(texts.rotations).map(([value, text]) => ({ value, text })),
          from: ({ rotation_policy: policy }) => policy?.rotation_period ?? '',
          send: (value) => (value === '' ? null : { rotation_period: value }),
          show: ({ rotation_policy: policy }) =>
            policy === null ? (
              texts.rotations['']
            ) : (
              <span>
                {policy.rotation_period ? texts.rotations[policy.rotation_period] : ''}{' '}
                <Time iso={policy.next_rotation_at} />
              </span>
            ),
        },
        { kind: 'lines', path: '/alert_emails', label: texts.field.emails },
      ],
    },
  ],
  details: (key) => <KeyDetails record={key} />,
  actions: (key, tools) => <KeyActions record={key} tools={tools} scope={scopeOf[key.type]} />,
};

function KeyDetails({ record: key }: { readonly record: Key }) {
  const { usage_limits: limit } = key;
  return (
    <div className="grid gap-3">
      <p className="flex flex-wrap items-center gap-x-4 gap-y-1">
        <Badge tone={tones[key.status]}>{texts.status[key.status]}</Badge>
        <code className="font-mono text-xs">{key.key}</code>
        <span>
          {texts.field.id} <Code text={key.id} />
        </span>
        <span className="text-soft">
          {texts.field.created} <Time iso={key.created_at} />
        </span>
        <Link to="/logs" search={{ api_key_ids: key.id }} className="text-accent underline">
          {texts.logs}
        </Link>
      </p>
      {key.key_transition_expires_at !== null && (
        <p className="text-warn">
          {texts.field.transition} <Time iso={key.key_transition_expires_at} />
        </p>
      )}
      {limit && (
        <section className="border-line grid gap-1 rounded-lg border p-4">
          <h3 className="font-semibold">{texts.usage}</h3>
          <UsageBar
            used={key.current_usage ?? 0}
            limit={limit.credit_limit}
            type={limit.type}
            alert={limit.alert_threshold}
            resets={key.next_usage_reset_at}
          />
        </section>
      )}
    </div>
  );
}

export default function Keys() {
  return <ResourcePage resource={keys} />;
}
