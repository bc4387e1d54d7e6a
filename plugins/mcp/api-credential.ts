import { isUsableIn } from '../../core/access/integration-access.ts';
import { didYouMean } from '../../core/base/did-you-mean.ts';
import { mcpAddressOf, type ReferringIntegration } from '../../core/organisation/mcp-address.ts';
import { GatewayError, type MaybePromise, type OptionFault, type Scope } from '../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import type { HeaderList } from '../../core/ports/header-list.ts';
import type { StoredRecord } from '../../core/ports/records.ts';
import type { ServerOptions } from './options.ts';

type OpenapiOptions = NonNullable<ServerOptions['openapi']>;

/** Services that a credential of a record is read with. */
type CredentialSources = Pick<Scope, 'router' | 'directory' | 'secrets' | 'secretManagers'>;

const noHeaders: HeaderList = [];
const callWord = Buffer.from('call');

/** Messages of a caller, as they are sent. */
interface Said {
  readonly caller: KeyRecord;
  readonly body: Uint8Array | null;
}

/**
 * False for messages without a call of a tool, which the gateway answers itself and for all callers alike: a list must
 * not depend on who asked for it first. A call that hides its name in escapes goes without a credential.
 */
function mayCall(body: Uint8Array | null): boolean {
  return body !== null && Buffer.from(body.buffer, body.byteOffset, body.length).includes(callWord);
}

/**
 * Headers with the credential of the record that an API names, as the caller's workspace may use it; none where the API
 * names no record, and for messages that call nothing. Throws, or rejects with, `provider_unknown`, `provider_disabled` or
 * `credentials_failed`: no record, none for this workspace, or one whose secrets were stored for another origin.
 */
export function apiCredential(
  { credential, base_url: baseUrl }: OpenapiOptions,
  { caller, body }: Said,
  sources: CredentialSources,
): MaybePromise<HeaderList> {
  if (credential === undefined || baseUrl === undefined || !mayCall(body)) return noHeaders;
  const { provider, mcp_integration: integration = '' } = credential;
  const { origin } = new URL(baseUrl);
  return provider === undefined
    ? integrationHeaders(integration, origin, caller, sources)
    : sources.router.credentialFor({ slug: provider, origin, place: caller });
}

async function integrationHeaders(
  slug: string,
  origin: string,
  caller: KeyRecord,
  { directory, ...sources }: CredentialSources,
): Promise<HeaderList> {
  const record = directory.record('mcp_integration', caller, slug);
  if (record?.slug !== slug) {
    const near = didYouMean(slug, usableSlugs(directory, caller));
    const hint = near === undefined ? 'Make it, or name another one.' : `Did you mean "${near}"?`;
    throw new GatewayError(
      'provider_unknown',
      `The MCP server takes its credential from the MCP integration "${slug}", which does not exist. ${hint}`,
    );
  }
  if (!isUsableIn(record, caller.workspaceId))
    throw new GatewayError(
      'provider_disabled',
      `The MCP server takes its credential from the MCP integration "${slug}", which the workspace may not use. Enable it for the workspace.`,
    );
  const { origin: stored } = new URL(record.data.url);
  if (stored !== origin) throw otherOrigin(`MCP integration "${slug}"`, stored, origin);
  const { headers } = await mcpAddressOf(referring(record, caller, directory), caller.workspaceId, sources);
  if (headers.length > 0) return headers;
  throw new GatewayError(
    'credentials_failed',
    `The MCP integration "${slug}" has no headers for the MCP server that takes its credential from there. Give it custom_headers.`,
  );
}

/** Names that may be told to this caller. */
function usableSlugs(directory: CredentialSources['directory'], caller: KeyRecord): readonly string[] {
  return directory
    .records('mcp_integration', caller)
    .filter((one) => isUsableIn(one, caller.workspaceId))
    .map((one) => one.slug);
}

function referring(
  record: StoredRecord<'mcp_integration'>,
  { organisationId }: KeyRecord,
  directory: CredentialSources['directory'],
): ReferringIntegration {
  const references = record.data.secretMappings.map(({ secretReferenceId }) =>
    directory.record('secret_reference', { organisationId }, secretReferenceId),
  );
  return { record, references };
}

function otherOrigin(what: string, stored: string, origin: string): GatewayError {
  return new GatewayError(
    'credentials_failed',
    `The credential of the ${what} was stored for ${stored}, and the MCP server would send it to ${origin}. Name a record of that origin, or correct base_url.`,
  );
}

/** Mistakes in the credential of an API; `path` is that of its `openapi`. */
export function credentialFaults(
  path: string,
  { credential, base_url: baseUrl }: OpenapiOptions,
): readonly OptionFault[] {
  if (credential === undefined) return [];
  if ((credential.provider === undefined) === (credential.mcp_integration === undefined))
    return [{ path: `${path}/credential`, message: 'needs one of provider and mcp_integration' }];
  return baseUrl === undefined
    ? [{ path, message: 'needs base_url beside credential: a stored secret is sent to its own origin alone' }]
    : [];
}
