import { useQuery } from '@tanstack/react-query';
import { api, dataOf } from '@/api/client';
import type { Finder } from '@/resource/declaration';
import { type Mapping, SecretMappings } from '@/resource/secret-mappings';
import { providers as texts } from '@/texts/providers';
import { Field, Input, Textarea } from '@/ui/fields';
import { Loaded } from '@/ui/states';

/** The kinds of providers, with the settings that each takes. */
export function useKinds(enabled = true) {
  return useQuery({
    enabled,
    queryKey: ['provider-kinds'],
    staleTime: 600_000,
    queryFn: readKinds,
  });
}

async function readKinds() {
  return (await dataOf(api.GET('/provider-kinds'))).data;
}
type Kind = Awaited<ReturnType<typeof readKinds>>[number];

/** One of these is needed to do something with integrations: those of the organisation, or of a workspace. */
export const integrationScopes = (action: string): string[] => [
  `organisation_integrations.${action}`,
  `workspace_integrations.${action}`,
];

/** Kinds of providers by their names. */
export const kindFinder: Finder = {
  ...{ name: 'provider-kinds', by: 'slug' },
  scopes: [...['list', 'create'].flatMap(integrationScopes), 'virtual_keys.list', 'virtual_keys.create'],
  async find(text) {
    const all = await readKinds();
    return all
      .filter(({ id }) => id.includes(text.trim().toLowerCase()))
      .map(({ id, address }) => ({ value: id, text: id, note: hostOf(address) }));
  },
};

function hostOf(address: string | null): string {
  if (address === null) return texts.field.host;
  return address.replace(/^https?:\/\//, '').split('/')[0] ?? address;
}

type Values = Readonly<Record<string, unknown>>;

interface SettingsProps {
  readonly kind: string;
  readonly value: Values;
  readonly onChange: (value: Values) => void;
  readonly disabled: boolean;
}

/** The settings that a kind of provider takes: the needed ones first, rarer ones folded. */
export function Settings({ kind, value, onChange, disabled }: SettingsProps) {
  const kinds = useKinds();
  if (kind === '') return <p className="text-soft">{texts.field.noSettings}</p>;
  return (
    <Loaded query={kinds}>
      {(all) => {
        const fields = all.find(({ id }) => id === kind)?.fields ?? [];
        const isUsual = ({ name, required }: Kind['fields'][number]): boolean =>
          required || name in value || usual.test(name);
        const set = (name: string, next: unknown): void => {
          const { [name]: _, ...others } = value;
          onChange(next === undefined ? others : { ...others, [name]: next });
        };
        const shown = (field: Kind['fields'][number]) => (
          <Setting
            key={field.name}
            field={field}
            value={value[field.name]}
            onChange={(next) => set(field.name, next)}
            disabled={disabled}
          />
        );
        const usualOnes = fields.filter(isUsual).sort((a, b) => Number(b.required) - Number(a.required));
        const others = fields.filter((field) => !isUsual(field));
        return (
          <div className="grid gap-4">
            <div className="grid gap-4 sm:grid-cols-2">{usualOnes.map(shown)}</div>
            {others.length > 0 && (
              <details>
                <summary className="cursor-pointer font-medium">{texts.field.moreSettings}</summary>
                <div className="grid gap-4 pt-3 sm:grid-cols-2">{others.map(shown)}</div>
              </details>
            )}
          </div>
        );
      }}
    </Loaded>
  );
}

/** Most integrations of their kind say these. */
const usual =
  /^(custom_host|aws_(access_key_id|secret_access_key|region|role_arn)|azure_(resource_name|api_version|deployment_config)|vertex_(project_id|region|service_account_json)|openai_(organization|project))$/;

interface SettingProps {
  readonly field: Kind['fields'][number];
  readonly value: unknown;
  readonly onChange: (value: unknown) => void;
  readonly disabled: boolean;
}

function Setting({
  field: { name, description, secret, required },
  value,
  onChange,
  disabled,
}: SettingProps) {
  const label = required ? `${name} *` : name;
  const isJson = name === 'azure_deployment_config' || name === 'custom_headers';
  const shown = typeof value === 'string' ? value : value === undefined ? '' : JSON.stringify(value, null, 2);
  if (isJson || name === 'vertex_service_account_json' || name.endsWith('private_key'))
    return (
      <Field label={label} help={description} className="col-span-full">
        {(control) => (
          <Textarea
            {...control}
            disabled={disabled}
            spellCheck={false}
            className="font-mono text-xs"
            defaultValue={shown}
            onChange={({ target }) => onChange(jsonOr(target.value))}
          />
        )}
      </Field>
    );
  return (
    <Field label={label} help={description}>
      {(control) => (
        <Input
          {...control}
          disabled={disabled}
          // Stored secrets come back masked; only typed text is a secret.
          type={secret && !shown.includes('…') ? 'password' : 'text'}
          autoComplete={secret ? 'new-password' : 'off'}
          value={shown}
          onChange={({ target }) => onChange(target.value === '' ? undefined : target.value)}
        />
      )}
    </Field>
  );
}

function jsonOr(text: string): unknown {
  if (text.trim() === '') return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    // The gateway says what it needs.
    return text;
  }
}

interface MappingsProps {
  readonly kind: string;
  readonly value: readonly Mapping[];
  readonly onChange: (value: readonly Mapping[]) => void;
  readonly disabled: boolean;
}

/** Which fields of a kind of providers come from which secret references. */
export function Mappings({ kind, ...props }: MappingsProps) {
  const kinds = useKinds();
  const fields = kinds.data?.find(({ id }) => id === kind)?.fields ?? [];
  return (
    <SecretMappings {...props} targets={['key', ...fields.map(({ name }) => `configurations.${name}`)]} />
  );
}
