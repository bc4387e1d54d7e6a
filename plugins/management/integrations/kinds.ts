import {
  ConfigurationsSchema,
  configurationNames,
} from '../../../core/organisation/integration-configurations.ts';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import { providerFields, templateFields } from '../../../core/providers/provider-fields.ts';
import { orNull } from '../shared/fields.ts';
import { listReply } from '../shared/replies.ts';
import { integrationScopes } from './record.ts';

const Field = Type.Object({
  name: Type.String({ description: 'Its name in `configurations` of an integration.' }),
  description: Type.String(),
  secret: Type.Boolean({ description: 'Stored encrypted, and shown masked.' }),
  required: Type.Boolean({
    description: 'The address of the provider cannot be told without it, unless `custom_host` is given.',
  }),
});

const KindReply = Type.Object({
  id: Type.String({ description: '`ai_provider_id` of integrations.' }),
  dialect: Type.String({ description: 'Wire format of the host.' }),
  address: orNull(Type.String({ description: 'Null for software of your own: it needs `custom_host`.' })),
  credentials: Type.String({
    description: 'How the key is sent: `bearer`, `x-api-key`, `sigv4` …; `none` for hosts that need no key.',
  }),
  fields: Type.Array(Field),
});

const secretFields: ReadonlySet<string> = new Set([
  ...providerFields.filter(({ secret }) => secret).map(({ name }) => name),
  'custom_headers',
]);
const described = ConfigurationsSchema.properties as Readonly<
  Record<string, { readonly description?: string }>
>;

/** `GET /provider-kinds`: the providers that integrations can be made for, with the settings that each takes. */
export function providerKindsRoute({ router }: Pick<Scope, 'router'>): RouteDefinition {
  const kind = (id: string): Static<typeof KindReply> => {
    const row = router.providers.get(id) ?? {};
    const address = row.base_url ?? null;
    const needed = templateFields(address ?? '');
    return {
      ...{ id, address, dialect: row.dialect ?? 'openai-chat', credentials: row.credentials ?? 'bearer' },
      fields: configurationNames(id).map((name) => ({
        name,
        description: described[name]?.description ?? '',
        secret: secretFields.has(name),
        required: needed.includes(name) || (address === null && name === 'custom_host'),
      })),
    };
  };
  return defineRoute({
    id: 'provider_kinds.list',
    method: 'GET',
    path: '/provider-kinds',
    summary: 'The providers that integrations can be made for, with the settings that each takes',
    scope: [
      ...integrationScopes('list'),
      ...integrationScopes('create'),
      'virtual_keys.list',
      'virtual_keys.create',
    ],
    // Reads only.
    audit: null,
    reply: Type.Object({ ...listReply, data: Type.Array(KindReply) }),
    handle() {
      const data = [...router.providers.keys()].sort((a, b) => a.localeCompare(b)).map(kind);
      return { object: 'list' as const, total: data.length, data };
    },
  });
}
