import { api, dataOf } from '@/api/client';
import type { operations } from '@/api/schema.gen';
import { workspaceFinder } from '@/resource/common-fields';
import { type Resource, versioned } from '@/resource/declaration';
import { ResourcePage } from '@/resource/page';
import { Facts } from '@/resource/shown';
import { common } from '@/texts/common';
import { providers } from '@/texts/providers';
import { Field, Input, Select } from '@/ui/fields';
import { Badge, Code, Time } from '@/ui/small';

const texts = providers.secrets;
const shared = providers;

type Detail = operations['secret_references.get']['responses'][200]['content']['application/json'];
type Entry =
  operations['secret_references.list']['responses'][200]['content']['application/json']['data'][number];
type Create = NonNullable<
  operations['secret_references.create']['requestBody']
>['content']['application/json'];
type Update = NonNullable<
  operations['secret_references.update']['requestBody']
>['content']['application/json'];
/** A reference; in the list without what only its details say. */
type Row = Entry & Partial<Detail>;
type Manager = Entry['manager_type'];
type Auth = Readonly<Record<string, string>>;

interface Manner {
  /** The member that says how to sign in, with what each of its values needs; a `*` marks secrets, a `?` what may be left out. */
  readonly by: string;
  readonly modes: Readonly<Record<string, readonly string[]>>;
  readonly always: readonly string[];
}

const manners: Readonly<Partial<Record<Manager, Manner>>> = {
  aws_sm: {
    by: 'aws_auth_type',
    modes: {
      accessKey: ['aws_region', 'aws_access_key_id*', 'aws_secret_access_key*'],
      assumedRole: [
        ...['aws_region', 'aws_role_arn', 'aws_external_id?*'],
        ...['aws_access_key_id?*', 'aws_secret_access_key?*'],
      ],
      serviceRole: ['aws_region?'],
    },
    always: [],
  },
  azure_kv: {
    by: 'azure_auth_mode',
    modes: {
      entra: ['azure_entra_tenant_id', 'azure_entra_client_id', 'azure_entra_client_secret*'],
      managed: ['azure_managed_client_id?'],
      default: [],
    },
    always: ['azure_vault_url'],
  },
  hashicorp_vault: {
    by: 'vault_auth_type',
    modes: {
      token: ['vault_token*'],
      approle: ['vault_role_id', 'vault_secret_id*'],
      kubernetes: ['vault_role'],
    },
    always: ['vault_addr', 'vault_namespace?'],
  },
};

interface AuthFieldsProps {
  readonly manager: Manager | '';
  readonly value: Auth;
  readonly onChange: (value: Auth) => void;
  readonly disabled: boolean;
}

/** How a secret manager is signed in to. */
function AuthFields({ manager, value, onChange, disabled }: AuthFieldsProps) {
  const manner = manager === '' ? undefined : manners[manager];
  if (manner === undefined) return <p className="text-soft">{texts.field.noAuth}</p>;
  const mode = value[manner.by] ?? Object.keys(manner.modes)[0] ?? '';
  const names = [...manner.always, ...(manner.modes[mode] ?? [])];
  const known = new Set([manner.by, ...names.map((name) => name.replace(/[*?]/g, ''))]);
  const set = (patch: Auth): void => {
    const next = { [manner.by]: mode, ...value, ...patch };
    onChange(
      Object.fromEntries(Object.entries(next).filter(([name, text]) => known.has(name) && text !== '')),
    );
  };
  return (
    <div className="grid gap-4 sm:grid-cols-2">
      <Field label={texts.field.mode} className="col-span-full">
        {(control) => (
          <Select
            {...control}
            disabled={disabled}
            value={mode}
            options={Object.keys(manner.modes).map(
              (one) => [one, texts.modes[one as keyof typeof texts.modes]] as const,
            )}
            onChange={({ target }) => {
              const kept = Object.entries(value).filter(([name]) =>
                manner.always.some((one) => one.replace('?', '') === name),
              );
              onChange({ ...Object.fromEntries(kept), [manner.by]: target.value });
            }}
          />
        )}
      </Field>
      {names.map((coded) => {
        const name = coded.replace(/[*?]/g, '');
        const text = value[name] ?? '';
        return (
          <Field key={name} label={coded.includes('?') ? name : `${name} *`}>
            {(control) => (
              <Input
                {...control}
                disabled={disabled}
                // Stored secrets come back masked; only typed text is a secret.
                type={coded.includes('*') && !text.includes('…') ? 'password' : 'text'}
                autoComplete={coded.includes('*') ? 'new-password' : 'off'}
                value={text}
                onChange={({ target }) => set({ [name]: target.value })}
              />
            )}
          </Field>
        );
      })}
    </div>
  );
}

const at = (secretReferenceId: string) => ({ path: { secretReferenceId } });

const secrets: Resource<Row, Create, Update> = {
  ...{ name: 'secret-references', noun: texts.noun, title: texts.title, intro: texts.intro },
  ...{ empty: texts.empty, audit: 'secret_references', searches: true },
  id: ({ id }) => id,
  label: ({ name }) => name,
  list: ({ page, size, search }) =>
    dataOf(
      api.GET('/secret-references', {
        params: { query: { current_page: page, page_size: size, ...(search !== '' && { search }) } },
      }),
    ),
  get: (id) => versioned(api.GET('/secret-references/{secretReferenceId}', { params: at(id) })),
  columns: [
    {
      header: shared.column.name,
      cell: ({ row }) => <span className="font-medium">{row.original.name}</span>,
    },
    { header: shared.column.slug, cell: ({ row }) => <Code text={row.original.slug} /> },
    {
      header: texts.field.manager,
      cell: ({ row }) => <Badge>{texts.managers[row.original.manager_type]}</Badge>,
    },
    { header: shared.column.changed, cell: ({ row }) => <Time iso={row.original.last_updated_at} ago /> },
  ],
  create: {
    scopes: ['secret_references.create'],
    run: (body) =>
      dataOf(api.POST('/secret-references', { body: { ...body, auth_config: body.auth_config ?? {} } })),
  },
  update: {
    scopes: ['secret_references.update'],
    run: (id, body, headers) =>
      dataOf(api.PUT('/secret-references/{secretReferenceId}', { params: at(id), body, headers })),
  },
  remove: {
    ...{ scopes: ['secret_references.delete'], action: common.action.delete, text: texts.removeText },
    run: (id, headers) =>
      dataOf(api.DELETE('/secret-references/{secretReferenceId}', { params: at(id), headers })),
  },
  sections: [
    {
      title: texts.section.where,
      fields: [
        { kind: 'text', path: '/name', label: shared.field.name, required: true },
        {
          ...{ kind: 'text', path: '/slug', label: shared.field.slug, help: texts.field.slugHelp },
          ...{ only: 'create', mono: true },
        },
        {
          ...{ kind: 'choice', path: '/manager_type', label: texts.field.manager, only: 'create' },
          ...{ required: true, initial: 'environment' },
          options: Object.entries(texts.managers).map(([value, text]) => ({ value, text })),
        },
        {
          ...{ kind: 'text', path: '/secret_path', label: texts.field.path, help: texts.field.pathHelp },
          ...{ required: true, mono: true },
        },
        { kind: 'text', path: '/secret_key', label: texts.field.member, help: texts.field.memberHelp },
        { kind: 'long', path: '/description', label: shared.field.description },
      ],
    },
    {
      title: texts.section.auth,
      fields: [
        {
          ...{ kind: 'own', path: '/auth_config', label: texts.field.auth, initial: {} },
          control: ({ value, onChange, situation, disabled }) => (
            <AuthFields
              manager={
                situation.record?.manager_type ?? ((situation.values['/manager_type'] ?? '') as Manager | '')
              }
              value={(value ?? {}) as Auth}
              onChange={onChange}
              disabled={disabled}
            />
          ),
          show: ({ auth_config: auth = {} }) =>
            Object.keys(auth).length === 0 ? texts.field.noAuth : <Facts rows={Object.entries(auth)} />,
        },
      ],
    },
    {
      title: texts.section.use,
      fields: [
        { kind: 'toggle', path: '/allow_all_workspaces', label: texts.field.all },
        {
          ...{ kind: 'reference', path: '/allowed_workspaces', label: texts.field.workspaces, several: true },
          find: workspaceFinder,
          shown: ({ values }) => values['/allow_all_workspaces'] !== true,
        },
        { kind: 'lines', path: '/allowed_hosts', label: texts.field.hosts, help: texts.field.hostsHelp },
      ],
    },
  ],
};

/** `/secrets`. */
export default function Secrets() {
  return <ResourcePage resource={secrets} />;
}
