import { isDeepStrictEqual } from 'node:util';
import { ConfigurationsSchema } from '../../core/organisation/integration-configurations.ts';
import { originOf } from '../../core/providers/secret-origins.ts';
import { Type, type Static } from '../../core/pipeline/plugin.ts';
import type { McpIntegrationData } from '../../core/ports/record-kinds.ts';
import type { ResourcesReader } from '../../core/ports/resources.ts';
import { unboundReferences } from './bound-secrets.ts';
import { GivenSlug, type IntegrationOwner } from './integration-body.ts';
import { readMappings, SecretMappings } from './integration-mappings.ts';
import { headersOf, unmaskedHeaders, type PlainSecrets } from './integration-secrets.ts';
import { customHeadersField, headerMistakes, mappableHeaders } from './mcp-headers.ts';
import { plainObject } from './plain-json.ts';
import { refusedBody, type BodyMistake } from './refused-body.ts';
import { Description, Name, orNull, strict } from './text-schema.ts';

const maxPassthroughBytes = 4096;

/** How a server learns who speaks to it, as bodies say it. */
const GivenAuthType = Type.Union(
  [Type.Literal('oauth_auto'), Type.Literal('headers'), Type.Literal('none')],
  { description: '`headers`: by `configurations.custom_headers`.' },
);
const Transport = Type.Union([Type.Literal('http'), Type.Literal('sse')], {
  description: 'Streamable HTTP, or the older transport of two endpoints.',
});
const Url = Type.String({
  ...{ minLength: 1, maxLength: 2048, format: 'uri' },
  description: 'Where the server listens: http or https, without credentials.',
});

/** What is sent to the server beside the protocol. */
const McpConfigurations = Type.Object(
  {
    custom_headers: ConfigurationsSchema.properties.custom_headers,
    passthrough_header: Type.Optional(
      orNull(
        Type.Record(Type.String(), Type.Unknown(), {
          maxProperties: 20,
          propertyNames: { minLength: 1, maxLength: 255 },
          description: 'Which headers of callers travel on. Kept as it is sent; 4 KiB at the most.',
        }),
      ),
    ),
  },
  { ...strict, description: 'Replaced as a whole. The values of headers are answered masked.' },
);

const fields = {
  description: Type.Optional(orNull(Description)),
  configurations: Type.Optional(McpConfigurations),
  secret_mappings: Type.Optional(orNull(SecretMappings)),
};

/** What makes an MCP integration. */
export const CreateMcpIntegration = Type.Object(
  {
    name: Name('For people.'),
    url: Url,
    auth_type: GivenAuthType,
    transport: Transport,
    slug: Type.Optional(GivenSlug),
    organisation_id: Type.Optional(Name('That of the key; anything else is refused.')),
    workspace_id: Type.Optional(
      Name('Whose it is: id or slug. Default: the organisation, or the workspace of the key.'),
    ),
    ...fields,
  },
  strict,
);

/** What changes one; what is not given stays, `configurations` and `secret_mappings` are replaced as a whole. */
export const UpdateMcpIntegration = Type.Object(
  {
    name: Type.Optional(Name('For people.')),
    url: Type.Optional(Url),
    auth_type: Type.Optional(GivenAuthType),
    transport: Type.Optional(Transport),
    workspace_id: Type.Optional(Name('Its workspace, for keys of the organisation that name it by slug.')),
    ...fields,
  },
  strict,
);

/** An MCP integration with its secrets opened. */
export interface McpIntegrationContent {
  readonly name: string;
  readonly data: McpIntegrationData;
  readonly plain: PlainSecrets;
}

/** One that a body is about to make: for no workspace, and never spoken to. */
export function emptyMcpIntegration(body: Static<typeof CreateMcpIntegration>): McpIntegrationContent {
  return {
    ...{ name: body.name, plain: {} },
    data: {
      ...{ description: '', url: '', authType: body.auth_type, transport: body.transport },
      ...{ customHeaders: [], passthroughHeader: {}, secretMappings: [] },
      ...{ globalAccess: { enabled: false }, workspaces: {} },
      ...{ server: undefined, syncError: '', capabilities: [] },
    },
  };
}

/** What the body makes of an MCP integration as it is. Throws `invalid_request` with every mistake and its place. */
export async function changedMcpIntegration(
  reader: Pick<ResourcesReader, 'records'>,
  body: Static<typeof UpdateMcpIntegration>,
  before: McpIntegrationContent,
  owner: IntegrationOwner,
): Promise<McpIntegrationContent> {
  const mistakes: BodyMistake[] = [];
  const given = body.secret_mappings;
  const secretMappings =
    given === undefined
      ? before.data.secretMappings
      : await readMappings(reader, given ?? [], { ...owner, fields: mappableHeaders }, mistakes);
  const url = body.url ?? before.data.url;
  const urlMistake = addressMistake(url);
  if (urlMistake !== undefined) mistakes.push({ path: '/url', message: urlMistake });
  const headers = changedHeaders(body, before, { isMoved: isElsewhere(before.data.url, url) }, mistakes);
  const passthroughHeader = changedPassthrough(body, before.data, mistakes);
  mistakes.push(...(await unboundReferences(reader, secretMappings, [originOf(url)], owner)));
  if (mistakes.length > 0) throw refusedBody(mistakes);
  const names = Object.keys(headers);
  const reached = {
    ...{ url, authType: body.auth_type ?? before.data.authType },
    ...{ transport: body.transport ?? before.data.transport, customHeaders: names, secretMappings },
  };
  const plain: PlainSecrets = names.length === 0 ? {} : { [customHeadersField]: JSON.stringify(headers) };
  const changed: McpIntegrationData = {
    ...{ ...before.data, ...reached, passthroughHeader },
    description: body.description === undefined ? before.data.description : (body.description ?? ''),
  };
  const isSame =
    isDeepStrictEqual({ ...before.data, ...reached }, before.data) && isDeepStrictEqual(plain, before.plain);
  // What was found out was found out at another address, or as somebody else.
  const data = isSame ? changed : { ...changed, server: undefined, syncError: '' };
  return { name: body.name ?? before.name, data, plain };
}

/** Whether the host may be reached is seen when it is connected to. */
function addressMistake(text: string): string | undefined {
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text)) return 'must be an address like https://host/mcp';
  const { username, password, hash } = new URL(text);
  if (username !== '' || password !== '')
    return 'carries credentials; give them in configurations.custom_headers';
  return hash === '' ? undefined : 'has a fragment, which is sent nowhere; leave it out';
}

function isElsewhere(before: string, url: string): boolean {
  if (before === '' || !URL.canParse(url)) return false;
  return new URL(before).origin !== new URL(url).origin;
}

/** Headers stay what they are while the server does: they must not be sent elsewhere by somebody who does not know them. */
function changedHeaders(
  { configurations }: Static<typeof UpdateMcpIntegration>,
  { plain }: McpIntegrationContent,
  { isMoved }: { readonly isMoved: boolean },
  mistakes: BodyMistake[],
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
  const headers = unmaskedHeaders(given, isMoved ? {} : before, mistakes, path);
  // Masked ones that stand for nothing have been refused already.
  if (mistakes.length === 0) mistakes.push(...headerMistakes(headers, path));
  return headers;
}

function changedPassthrough(
  { configurations }: Static<typeof UpdateMcpIntegration>,
  before: McpIntegrationData,
  mistakes: BodyMistake[],
): McpIntegrationData['passthroughHeader'] {
  if (configurations === undefined) return before.passthroughHeader;
  const path = '/configurations/passthrough_header';
  const passthrough = plainObject(configurations.passthrough_header ?? {}, path);
  if (Buffer.byteLength(JSON.stringify(passthrough)) > maxPassthroughBytes)
    mistakes.push({ path, message: `is longer than ${maxPassthroughBytes} bytes of JSON` });
  return passthrough;
}
