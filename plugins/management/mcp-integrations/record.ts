import { type Static, Type } from '../../../core/pipeline/plugin.ts';
import type {
  McpIntegrationData,
  McpOauthSettings,
  SecretMapping,
} from '../../../core/ports/record-kinds.ts';
import type { StoredRecord } from '../../../core/ports/records.ts';
import {
  type IntegrationOwner,
  integrationRecord,
  integrationSchemas,
  type MappableFields,
  SecretMappings,
} from '../integrations/record.ts';
import {
  customHeadersField,
  headerNameMistake,
  headersOf,
  headerValueMistake,
  mappedHeader,
} from '../../../core/organisation/mcp-address.ts';
import { type PlainSecrets, sealedSecrets } from '../shared/sealed-secrets.ts';
import {
  identityHeaderMistakes,
  IdentityHeadersSchema,
  McpOauthSchema,
  oauthMistakes,
  type OauthSecretName,
  oauthSecrets,
  withoutOauthSecrets,
} from '../../../core/organisation/mcp-oauth.ts';
import { Description, Name, orNull, plainObject, refusedBody, strict } from '../shared/fields.ts';
import { isDeepStrictEqual } from 'node:util';
import { ConfigurationsSchema } from '../../../core/organisation/integration-configurations.ts';
import { originOf } from '../../../core/providers/provider-row.ts';
import type { ResourcesReader } from '../../../core/ports/resources.ts';
import { sharedAccess } from '../shared/workspace-access.ts';
import type { Mistake } from '../../../core/base/json.ts';

/** Changes and shows the record of an MCP integration. */
export const mcpRecord = {
  empty: emptyMcpIntegration,
  changed: changedMcpIntegration,
  showConfigurations: showMcpConfigurations,
};

const path = '/configurations/oauth';

/** OAuth settings in a body. */
type GivenOauth = Static<typeof McpOauthSchema>;

/** What the settings of an integration depend on. */
interface OauthChange {
  /** Absent: the settings stay. */
  readonly given: GivenOauth | undefined;
  readonly before: Pick<McpIntegrationData, 'oauth' | 'url'>;
  /** Opened secrets of the record as it was. */
  readonly plain: PlainSecrets;
  /** Of the record as it will be. */
  readonly after: Pick<McpIntegrationData, 'authType' | 'url' | 'secretMappings'>;
}

/** OAuth settings of an integration, and their secrets by field. */
interface ChangedOauth {
  readonly settings: McpOauthSettings;
  readonly plain: PlainSecrets;
}

/**
 * The settings after a change. Stored secrets stay valid only for the place that they were given for: a caller who does
 * not know them must not send them elsewhere.
 */
function changedOauth(change: OauthChange, mistakes: Mistake[]): ChangedOauth {
  const { given, before, plain, after } = change;
  const settings = given === undefined ? (before.oauth ?? {}) : withoutOauthSecrets(given);
  const placeBefore = oauthSecrets.origin(before.oauth ?? {}, before.url).origin;
  const isMoved = before.url !== '' && placeBefore !== oauthSecrets.origin(settings, after.url).origin;
  const secrets: Record<string, string> = {};
  for (const name of oauthSecrets.names) {
    const field = oauthSecrets.field(name);
    const stored = plain[field];
    if (given !== undefined) {
      const text = given[name];
      if (text !== undefined)
        secrets[field] = sealedSecrets.unmasked(
          text,
          isMoved ? undefined : stored,
          mistakes,
          `${path}/${name}`,
        );
    } else if (stored !== undefined) {
      secrets[field] = stored;
      const message = 'is missing: it would be sent to another server than before, so say it again';
      if (isMoved) mistakes.push({ path: `${path}/${name}`, message });
    }
  }
  mistakes.push(...contradictions(settings, secrets, after));
  return { settings, plain: secrets };
}

function contradictions(
  settings: McpOauthSettings,
  plain: PlainSecrets,
  { authType, secretMappings }: OauthChange['after'],
): readonly Mistake[] {
  const mapped = secretMappings.flatMap(({ targetField }) => oauthSecrets.nameOf(targetField) ?? []);
  const own = oauthSecrets.names.filter((name) => plain[oauthSecrets.field(name)] !== undefined);
  const secrets: ReadonlySet<OauthSecretName> = new Set([...mapped, ...own]);
  return oauthMistakes({ authType, settings, secrets }).map((one) => ({
    path: `${path}${one.path}`,
    message: one.message,
  }));
}

/** OAuth settings in answers. */
const McpOauthReply = Type.Object(McpOauthSchema.properties, {
  description: 'OAuth towards the server, with its secrets masked.',
});

/** The settings of an integration with masked secrets; undefined for none. */
function showOauth(
  { oauth }: Pick<McpIntegrationData, 'oauth'>,
  plain: PlainSecrets,
): Static<typeof McpOauthReply> | undefined {
  const masked = oauthSecrets.names.flatMap((name) => {
    const text = plain[oauthSecrets.field(name)];
    return text === undefined ? [] : [[name, sealedSecrets.mask(text)] as const];
  });
  const shown = { ...oauth, ...Object.fromEntries(masked) };
  return Object.keys(shown).length === 0 ? undefined : shown;
}

/** Fields of an MCP integration that secret references may fill: a header, all headers as JSON, a secret of OAuth. */
const mappableHeaders: MappableFields = {
  canonical: (target) => target.replace(/^model_config\./, 'configurations.'),
  refusal(field) {
    if (field === customHeadersField) return undefined;
    if (field.startsWith(`${customHeadersField}.`)) return headerNameMistake(mappedHeader(field) ?? '');
    if (oauthSecrets.nameOf(field) !== undefined) return undefined;
    const ofOauth = oauthSecrets.names.map((name) => oauthSecrets.field(name)).join(' or ');
    return `is no field of an MCP integration; it can be ${customHeadersField}.<name of a header>, ${customHeadersField} for a JSON object, ${ofOauth}`;
  },
};

/** Noun in messages. */
export const mcpIntegrationNoun = 'MCP integration';

/** Access rules of MCP integrations. */
export const mcpIntegrationAccess = sharedAccess('mcp_integration', {
  noun: mcpIntegrationNoun,
  resource: 'mcp_integrations',
});

const maxPassthroughBytes = 4096;

/** Authentication type of a server. */
const McpAuthType = Type.Union(
  [
    Type.Literal('oauth_auto'),
    Type.Literal('oauth_client_credentials'),
    Type.Literal('headers'),
    Type.Literal('none'),
  ],
  {
    description:
      '`headers`: by `configurations.custom_headers`. `oauth_auto`: each user connects their own account. `oauth_client_credentials`: the gateway has a client of its own, in `configurations.oauth`.',
  },
);
const Transport = Type.Union([Type.Literal('http'), Type.Literal('sse')], {
  description: 'Streamable HTTP, or the older transport with two endpoints.',
});
const Url = Type.String({
  minLength: 1,
  maxLength: 2048,
  format: 'uri',
  description: 'URL of the server: http or https, without credentials.',
});

/** Headers sent to the server beside those of the protocol, and the way to its tokens. */
const McpConfigurations = Type.Object(
  {
    custom_headers: ConfigurationsSchema.properties.custom_headers,
    passthrough_header: Type.Optional(
      orNull(
        Type.Record(Type.String(), Type.Unknown(), {
          maxProperties: 20,
          propertyNames: { minLength: 1, maxLength: 255 },
          description: 'Headers of callers to forward. Stored as sent; at most 4 KiB.',
        }),
      ),
    ),
    identity_headers: Type.Optional(IdentityHeadersSchema),
    oauth: Type.Optional(McpOauthSchema),
  },
  { ...strict, description: 'Replaced as a whole. Secrets are masked in answers.' },
);

const fields = {
  description: Type.Optional(orNull(Description)),
  configurations: Type.Optional(McpConfigurations),
  secret_mappings: Type.Optional(orNull(SecretMappings)),
};

/** Body that creates an MCP integration. */
const CreateMcpIntegration = Type.Object(
  {
    name: Name('For people.'),
    url: Url,
    auth_type: McpAuthType,
    transport: Transport,
    slug: Type.Optional(integrationSchemas.GivenSlug),
    organisation_id: Type.Optional(Name('That of the key; anything else is refused.')),
    workspace_id: Type.Optional(
      Name('Owning workspace: id or slug. Default: the organisation, or the workspace of the key.'),
    ),
    ...fields,
  },
  strict,
);

/** Body that changes one; absent members stay, `configurations` and `secret_mappings` are replaced as a whole. */
const UpdateMcpIntegration = Type.Object(
  {
    name: Type.Optional(Name('For people.')),
    url: Type.Optional(Url),
    auth_type: Type.Optional(McpAuthType),
    transport: Type.Optional(Transport),
    workspace_id: Type.Optional(Name('Its workspace, for keys of the organisation that name it by slug.')),
    ...fields,
  },
  strict,
);

/** An MCP integration with opened secrets. */
interface McpIntegrationContent {
  readonly name: string;
  readonly data: McpIntegrationData;
  readonly plain: PlainSecrets;
}

/** Starting content of a new one: without access for workspaces, never synchronised. */
function emptyMcpIntegration(body: Static<typeof CreateMcpIntegration>): McpIntegrationContent {
  return {
    name: body.name,
    plain: {},
    data: {
      description: '',
      url: '',
      authType: body.auth_type,
      transport: body.transport,
      customHeaders: [],
      passthroughHeader: {},
      secretMappings: [],
      globalAccess: { enabled: false },
      workspaces: {},
      server: undefined,
      syncError: '',
      capabilities: [],
    },
  };
}

/** The MCP integration after the change by the body. Throws `invalid_request` with every mistake and its place. */
async function changedMcpIntegration(
  reader: Pick<ResourcesReader, 'records'>,
  body: Static<typeof UpdateMcpIntegration>,
  before: McpIntegrationContent,
  owner: IntegrationOwner,
): Promise<McpIntegrationContent> {
  const mistakes: Mistake[] = [];
  const given = body.secret_mappings;
  const secretMappings =
    given === undefined
      ? before.data.secretMappings
      : await integrationRecord.readMappings(
          reader,
          given ?? [],
          { ...owner, fields: mappableHeaders },
          mistakes,
        );
  const url = body.url ?? before.data.url;
  const urlMistake = addressMistake(url);
  if (urlMistake !== undefined) mistakes.push({ path: '/url', message: urlMistake });
  const headers = changedHeaders(body, before, { isMoved: isOtherOrigin(before.data.url, url) }, mistakes);
  const passthroughHeader = changedPassthrough(body, before.data, mistakes);
  const { configurations } = body;
  const authType = body.auth_type ?? before.data.authType;
  const oauth = changedOauth(
    {
      given: configurations === undefined ? undefined : (configurations.oauth ?? {}),
      before: before.data,
      plain: before.plain,
      after: { authType, url, secretMappings },
    },
    mistakes,
  );
  const identityHeaders =
    configurations === undefined
      ? (before.data.identityHeaders ?? {})
      : changedIdentityHeaders(configurations.identity_headers, mistakes);
  const originsOf = ({ targetField }: SecretMapping) =>
    oauthSecrets.nameOf(targetField) === undefined
      ? [originOf(url)]
      : [oauthSecrets.origin(oauth.settings, url)];
  mistakes.push(...(await integrationRecord.unboundReferences(reader, secretMappings, originsOf, owner)));
  if (mistakes.length > 0) throw refusedBody(mistakes);
  const names = Object.keys(headers);
  const reached = {
    url,
    authType,
    transport: body.transport ?? before.data.transport,
    customHeaders: names,
    secretMappings,
    oauth: Object.keys(oauth.settings).length === 0 ? undefined : oauth.settings,
  };
  const plain: PlainSecrets = {
    ...(names.length > 0 && { [customHeadersField]: JSON.stringify(headers) }),
    ...oauth.plain,
  };
  const changed: McpIntegrationData = {
    ...before.data,
    ...reached,
    identityHeaders: Object.keys(identityHeaders).length === 0 ? undefined : identityHeaders,
    passthroughHeader,
    description: body.description === undefined ? before.data.description : (body.description ?? ''),
  };
  const isSame =
    isDeepStrictEqual(reachedOf(changed), reachedOf(before.data)) && isDeepStrictEqual(plain, before.plain);
  // The stored description came from another address or with other credentials.
  const data = isSame ? changed : { ...changed, server: undefined, syncError: '' };
  return { name: body.name ?? before.name, data, plain };
}

/** What decides which server answers, and how it is asked. */
function reachedOf(data: McpIntegrationData): readonly unknown[] {
  const { url, authType, transport, customHeaders, secretMappings, oauth } = data;
  return [url, authType, transport, customHeaders, secretMappings, oauth];
}

/** Mistake in an address. Whether its host is allowed is checked at connection. */
function addressMistake(text: string): string | undefined {
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text)) return 'must be an address like https://host/mcp';
  const { username, password, hash } = new URL(text);
  if (username !== '' || password !== '')
    return 'carries credentials; give them in configurations.custom_headers';
  return hash === '' ? undefined : 'has a fragment, which is sent nowhere; leave it out';
}

function isOtherOrigin(before: string, url: string): boolean {
  if (before === '' || !URL.canParse(url)) return false;
  return new URL(before).origin !== new URL(url).origin;
}

/** Stored headers stay valid only for the same server: a caller who does not know them must not redirect them. */
function changedHeaders(
  { configurations }: Static<typeof UpdateMcpIntegration>,
  { plain }: McpIntegrationContent,
  { isMoved }: { readonly isMoved: boolean },
  mistakes: Mistake[],
): Readonly<Record<string, string>> {
  const path = '/configurations/custom_headers';
  const before = headersOf(plain[customHeadersField]);
  if (configurations === undefined) {
    if (!isMoved || Object.keys(before).length === 0) return before;
    const message = 'is missing: the url leads to another server, so say again what it is sent';
    mistakes.push({ path, message });
    return before;
  }
  const given = configurations.custom_headers ?? {};
  const headers = sealedSecrets.unmaskedHeaders(given, isMoved ? {} : before, mistakes, path);
  // Masked headers without a stored value are refused already.
  if (mistakes.length === 0) mistakes.push(...headerMistakes(headers, path));
  return headers;
}

function changedPassthrough(
  { configurations }: Static<typeof UpdateMcpIntegration>,
  before: McpIntegrationData,
  mistakes: Mistake[],
): McpIntegrationData['passthroughHeader'] {
  if (configurations === undefined) return before.passthroughHeader;
  const path = '/configurations/passthrough_header';
  const passthrough = plainObject(configurations.passthrough_header ?? {}, path);
  if (Buffer.byteLength(JSON.stringify(passthrough)) > maxPassthroughBytes)
    mistakes.push({ path, message: `is longer than ${maxPassthroughBytes} bytes of JSON` });
  return passthrough;
}

/** Transport of the server. */
const McpTransport = Type.Union([Type.Literal('http'), Type.Literal('sse')]);

/** Headers sent to a server beside those of the protocol, in answers. */
const McpConfigurationsReply = Type.Object(
  {
    custom_headers: Type.Optional(Type.Record(Type.String(), Type.String())),
    passthrough_header: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
    identity_headers: Type.Optional(Type.Record(Type.String(), Type.String())),
    oauth: Type.Optional(McpOauthReply),
  },
  { description: 'Header values and secrets are masked.' },
);

/** Bodies and replies of MCP integrations. */
export const mcpSchemas = {
  AuthType: McpAuthType,
  Create: CreateMcpIntegration,
  Update: UpdateMcpIntegration,
  Transport: McpTransport,
  ConfigurationsReply: McpConfigurationsReply,
};

export type McpIntegration = StoredRecord<'mcp_integration'>;

/** Headers sent to the server and its OAuth settings, with masked values. */
function showMcpConfigurations(
  data: Pick<McpIntegrationData, 'passthroughHeader' | 'identityHeaders' | 'oauth'>,
  plain: PlainSecrets,
): Static<typeof McpConfigurationsReply> {
  const { passthroughHeader, identityHeaders } = data;
  const headers = sealedSecrets.maskedHeaders(headersOf(plain[customHeadersField]));
  const oauth = showOauth(data, plain);
  return {
    ...(Object.keys(headers).length > 0 && { custom_headers: headers }),
    ...(Object.keys(passthroughHeader).length > 0 && { passthrough_header: { ...passthroughHeader } }),
    ...(identityHeaders !== undefined && { identity_headers: { ...identityHeaders } }),
    ...(oauth !== undefined && { oauth }),
  };
}

/** Every mistake in the names and values of headers. */
function headerMistakes(headers: Readonly<Record<string, string>>, path: string): Mistake[] {
  const mistakes: Mistake[] = [];
  const seen = new Set<string>();
  for (const [name, value] of Object.entries(headers)) {
    const message = headerNameMistake(name) ?? headerValueMistake(value);
    if (message !== undefined) mistakes.push({ path: `${path}/${name}`, message });
    if (seen.has(name.toLowerCase()))
      mistakes.push({ path: `${path}/${name}`, message: 'is there twice, in another case; keep one' });
    seen.add(name.toLowerCase());
  }
  return mistakes;
}

/** The headers of claims after a change. */
function changedIdentityHeaders(
  given: Readonly<Record<string, string>> | undefined,
  mistakes: Mistake[],
): Readonly<Record<string, string>> {
  const headers = given ?? {};
  for (const one of identityHeaderMistakes(headers))
    mistakes.push({ path: `/configurations/identity_headers${one.path}`, message: one.message });
  return headers;
}
