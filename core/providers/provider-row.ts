import { Type, type Static } from 'typebox';
import { TrustedHosts } from '../base/host-rules.ts';
import type { IntegrationData, SecretReferenceData } from '../ports/record-kinds.ts';
import { fillBaseUrl } from './base-url.ts';
import { providerFields, templateFields, regionFields } from './provider-fields.ts';

/** Fields that may be part of an address. */
const templateNames = providerFields.filter(({ template }) => template).map(({ name }) => name);

const DialectNameSchema = Type.Union([
  Type.Literal('openai-chat'),
  Type.Literal('openai-completions'),
  Type.Literal('openai-responses'),
  Type.Literal('azure-openai'),
  Type.Literal('anthropic-messages'),
  Type.Literal('google-gemini'),
  Type.Literal('google-vertex'),
  Type.Literal('bedrock-converse'),
  Type.Literal('cohere-v2'),
  Type.Literal('workers-ai'),
]);

const names = (what: string) => Type.Record(Type.String(), Type.String(), { description: what });

const Quirks = Type.Object(
  {
    rename: Type.Optional(names('Top-level request members under another name: { seed: random_seed }.')),
    drop: Type.Optional(
      Type.Array(Type.String({ minLength: 1 }), {
        maxItems: 100,
        description:
          'Top-level request members that the host refuses. The gateway removes them and reports them as dropped.',
      }),
    ),
    roles: Type.Optional(names('Roles of messages under another name: { developer: system }.')),
    values: Type.Optional(
      Type.Record(Type.String(), Type.Record(Type.String(), Type.String()), {
        description: 'Renamed values, by member: { tool_choice: { required: "any" } }.',
      }),
    ),
    paths: Type.Optional(
      names("Path of an operation where it differs from the dialect's: { embeddings: /embed }."),
    ),
  },
  { additionalProperties: false, description: 'Differences between the host and its dialect.' },
);

/** One row of the provider table, and the shape of a provider in YAML. */
export const ProviderRowSchema = Type.Object(
  {
    dialect: Type.Optional(
      Type.Union(DialectNameSchema.anyOf, {
        description: 'Wire format of the host. Default openai-chat.',
      }),
    ),
    also_speaks: Type.Optional(
      Type.Array(DialectNameSchema, {
        uniqueItems: true,
        maxItems: 10,
        description:
          'Further wire formats that the host serves at the same address; requests in them are passed through without translation.',
      }),
    ),
    base_url: Type.Optional(
      Type.String({
        description:
          'Base URL of the API, with its version path: https://api.openai.com/v1 (the host alone for Gemini, Bedrock and Cohere). `{aws_region}` takes the value of that field. `mock:` is the built-in provider.',
        pattern: `^(https?://([^\\s{}]|\\{(${templateNames.join('|')})\\})+|mock:.*)$`,
        'x-expected': `an address that begins with https:// or http://, in which {fields} may stand: ${templateNames.join(', ')}`,
      }),
    ),
    credentials: Type.Optional(
      Type.Union(
        [
          Type.Literal('bearer'),
          Type.Literal('x-api-key'),
          Type.Literal('api-key'),
          Type.Literal('x-goog-api-key'),
          Type.Literal('sigv4'),
          Type.Literal('google'),
          Type.Literal('entra'),
          Type.Literal('none'),
        ],
        {
          description:
            'How the credential is sent: `Authorization: Bearer`, `x-api-key`, `api-key`, `x-goog-api-key`, an AWS signature (sigv4), a Google or Microsoft Entra token, or not at all. Default: the method of the vendor of the dialect, else bearer.',
        },
      ),
    ),
    headers: Type.Optional(
      Type.Record(Type.String(), Type.String(), {
        description: 'Headers added to every request to this host.',
      }),
    ),
    usage_in_stream: Type.Optional(
      Type.Union([Type.Literal('always'), Type.Literal('on_request'), Type.Literal('never')], {
        description:
          'Whether streamed chat answers carry usage: always, only when `stream_options.include_usage` asks (default), or never.',
      }),
    ),
    quirks: Type.Optional(Quirks),
    on_drop: Type.Optional(
      Type.Union([Type.Literal('report'), Type.Literal('refuse')], {
        description:
          'When the wire of the host cannot express a part of a request: leave it out and report it (default), or refuse the request.',
      }),
    ),
    service: Type.Optional(
      Type.String({
        description: 'Kind of provider, for analytics and prices. Default: the name of the row.',
      }),
    ),
  },
  { additionalProperties: false },
);

export type ProviderRow = Static<typeof ProviderRowSchema>;

/** The built-in provider that answers in this process. Its slug works without configuration. */
export const inProcessProvider = 'mock';

/** The built-in hosts by name. */
export type ProviderTable = ReadonlyMap<string, ProviderRow>;

/** An origin of requests, which receives the secrets of a record. */
export interface SecretOrigin {
  /** `https://api.openai.com`. A field without a value remains as `{field}`. */
  readonly origin: string;
  /** Whether the provider table names the host, except for a region. */
  readonly isOfTable: boolean;
}

/** Destinations of an integration's secrets. */
interface SecretOrigins {
  readonly own: SecretOrigin;
  /** By slug, for models with an address of their own. */
  readonly models: ReadonlyMap<string, SecretOrigin>;
}

/** Origins of an integration and of its models, enabled or not. */
export function originsOf(
  { configurations, models }: Pick<IntegrationData, 'configurations' | 'models'>,
  row: ProviderRow,
): SecretOrigins {
  const hosts = new Map<string, SecretOrigin>();
  for (const { slug, configurations: own } of models) {
    const host = own['custom_host'];
    if (typeof host === 'string') hosts.set(slug, originOf(host));
  }
  const { base_url: base, azure_foundry_url: foundry, huggingface_base_url: endpoint } = configurations;
  const address = [base, foundry, endpoint].find((one) => typeof one === 'string');
  return {
    own: address === undefined ? filledOrigin(row.base_url ?? '', configurations) : originOf(address),
    models: hosts,
  };
}

/** Origin of a given address. */
export function originOf(address: string): SecretOrigin {
  return { origin: URL.canParse(address) ? new URL(address).origin : address, isOfTable: false };
}

/** All origins, without duplicates. */
export function allOrigins({ own, models }: SecretOrigins): readonly SecretOrigin[] {
  return [...new Map([own, ...models.values()].map((one) => [one.origin, one])).values()];
}

/**
 * Origins that receive the secret of this field (`key`, `configurations.<option>`, `models.<slug>.headers`): headers of
 * a model go to the model's origin, everything else to all.
 */
export function originsOfField(field: string, origins: SecretOrigins): readonly SecretOrigin[] {
  if (!field.startsWith('models.')) return allOrigins(origins);
  return [origins.models.get(field.slice('models.'.length, -'.headers'.length)) ?? origins.own];
}

/** Fields in the host part of a `base_url`. */
export function hostFields(baseUrl: string): readonly string[] {
  return templateFields(authorityOf(baseUrl));
}

function filledOrigin(baseUrl: string, configurations: IntegrationData['configurations']): SecretOrigin {
  const authority = authorityOf(baseUrl);
  const names = templateFields(authority);
  if (names.length === 0) return { origin: authority, isOfTable: true };
  const fields: Record<string, string> = {};
  for (const name of names) {
    const value = configurations[name];
    fields[name] = typeof value === 'string' && value !== '' ? value : `{${name}}`;
  }
  return {
    origin: fillBaseUrl(authority, fields, { provider: '', headerPrefix: '' }).toLowerCase(),
    isOfTable: names.every((name) => regionFields.has(name)),
  };
}

function authorityOf(baseUrl: string): string {
  return /^[a-z]+:\/\/[^/]+/i.exec(baseUrl)?.[0] ?? baseUrl;
}

/**
 * Whether the secret of a reference may be sent to an origin: one of its `allowed_hosts`, or a host of the provider
 * table when that list is empty. References older than `allowed_hosts` are bound to no host.
 */
export function maySend({ allowedHosts }: SecretReferenceData, { origin, isOfTable }: SecretOrigin): boolean {
  if (allowedHosts === undefined) return true;
  if (allowedHosts.length === 0) return isOfTable;
  if (!URL.canParse(origin)) return false;
  const url = new URL(origin);
  const isPlain = url.protocol === 'http:';
  const entries = allowedHosts
    .filter((entry) => entry.startsWith(withoutTls) === isPlain)
    .map((entry) => (isPlain ? entry.slice(withoutTls.length) : entry));
  return new TrustedHosts(entries).has(url);
}

const withoutTls = 'http://';
