import { headersSetAnew, hopByHopHeaders, isHeaderName } from '../base/header-names.ts';
import { parseJson } from '../base/json.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { McpAddress } from '../ports/mcp.ts';
import type { SecretMapping } from '../ports/record-kinds.ts';
import type { StoredRecord } from '../ports/records.ts';
import { isAllowedIn, type SecretBox, secretContext, type SecretManagers } from '../ports/secret-managers.ts';
import { maySend, originOf, type SecretOrigin } from '../providers/provider-row.ts';

/** The secret of an MCP integration that holds its headers, as JSON. */
export const customHeadersField = 'configurations.custom_headers';

/** Headers that the protocol itself sets. */
const ofProtocol: ReadonlySet<string> = new Set([
  ...['accept', 'content-type', 'last-event-id', 'mcp-protocol-version', 'mcp-session-id'],
]);

/** Reason why a header of this name is not allowed; undefined when it is. */
export function headerNameMistake(name: string): string | undefined {
  if (!isHeaderName(name)) return 'is no name of a header';
  const lower = name.toLowerCase();
  const isOurs = hopByHopHeaders.has(lower) || headersSetAnew.has(lower) || ofProtocol.has(lower);
  return isOurs ? 'is set by the gateway itself; leave it out' : undefined;
}

/** Reason why a header cannot have this value; undefined when it can. */
export function headerValueMistake(value: string): string | undefined {
  return /^[\t\x20-\x7e\x80-\xff]*$/.test(value)
    ? undefined
    : 'holds characters that the value of a header cannot have';
}

/** Name of the header that a mapping targets; undefined when it targets all headers at once. */
export function mappedHeader(targetField: string): string | undefined {
  return targetField === customHeadersField ? undefined : targetField.slice(customHeadersField.length + 1);
}

/** The headers in one secret, a JSON object; none in anything else. */
export function headersOf(text: string | undefined): Readonly<Record<string, string>> {
  const found = text === undefined ? undefined : parseJson(text);
  if (typeof found !== 'object' || found === null || Array.isArray(found)) return {};
  return Object.fromEntries(
    Object.entries(found).filter((pair): pair is [string, string] => typeof pair[1] === 'string'),
  );
}

/** An MCP integration with its stored secret references. */
export interface ReferringIntegration {
  readonly record: StoredRecord<'mcp_integration'>;
  /** In the order of its mappings; undefined for a deleted one. */
  readonly references: readonly (StoredRecord<'secret_reference'> | undefined)[];
}

/** The sealed headers of a record, opened; undefined for none. Throws `internal` when their key is missing. */
function ownHeaders(box: SecretBox, { id, secrets }: StoredRecord<'mcp_integration'>): string | undefined {
  const sealed = secrets[customHeadersField];
  return sealed === undefined ? undefined : box.open(sealed, secretContext(id, customHeadersField));
}

/**
 * Address of the server and its headers: those of the record, overridden by those of its mappings. Undefined
 * `workspaceId` means requests of the organisation itself, which may use references for all workspaces. Rejects with
 * `credentials_failed` for a secret that is missing or not allowed.
 */
export async function mcpAddressOf(
  { record, references }: ReferringIntegration,
  workspaceId: string | undefined,
  {
    secrets,
    secretManagers: managers,
  }: { readonly secrets: SecretBox; readonly secretManagers: SecretManagers },
): Promise<McpAddress> {
  const { data } = record;
  const headers = new Map<string, readonly [string, string]>();
  const add = (name: string, value: string): void =>
    void headers.set(name.toLowerCase(), [name, value] as const);
  for (const [name, value] of Object.entries(headersOf(ownHeaders(secrets, record)))) add(name, value);
  for (const [index, mapping] of data.secretMappings.entries()) {
    if (!mapping.targetField.startsWith(customHeadersField)) continue;
    const mapped = { mapping, reference: references[index], workspaceId, origin: originOf(data.url) };
    const value = await mappedSecret(mapped, { secrets, secretManagers: managers });
    for (const [name, text] of mappedHeaders(mapping, value)) add(name, text);
  }
  return { url: data.url, transport: data.transport, headers: [...headers.values()].flat() };
}

/** A secret that a record takes from a reference. */
interface MappedSecret {
  readonly mapping: SecretMapping;
  /** Undefined for a deleted one. */
  readonly reference: StoredRecord<'secret_reference'> | undefined;
  /** Undefined for requests of the organisation itself. */
  readonly workspaceId: string | undefined;
  /** Where it is sent. */
  readonly origin: SecretOrigin;
}

/** The secret. Rejects with `credentials_failed` when it is missing, or not allowed here. */
export async function mappedSecret(
  { mapping, reference, workspaceId, origin }: MappedSecret,
  {
    secrets,
    secretManagers: managers,
  }: { readonly secrets: SecretBox; readonly secretManagers: SecretManagers },
): Promise<string> {
  const isAllowed =
    workspaceId === undefined
      ? reference?.data.allowAllWorkspaces === true
      : reference !== undefined && isAllowedIn(reference.data, workspaceId);
  if (reference?.status !== 'active')
    throw secretReferenceError(mapping, 'that does not exist any more; name another one');
  if (!isAllowed)
    throw secretReferenceError(
      mapping,
      workspaceId === undefined
        ? 'that is not for all workspaces; say whose request it is with workspace_id'
        : 'that the workspace may not use; allow it, or name another one',
    );
  if (!maySend(reference.data, origin))
    throw secretReferenceError(
      mapping,
      'whose secret may not be sent to its host; add the host to its allowed_hosts',
    );
  return managers.value(reference, secrets, mapping.secretKey === '' ? undefined : mapping.secretKey);
}

function mappedHeaders(mapping: SecretMapping, value: string): readonly (readonly [string, string])[] {
  const single = mappedHeader(mapping.targetField);
  const headers = single === undefined ? Object.entries(headersOf(value)) : [[single, value] as const];
  if (headers.length === 0)
    throw secretReferenceError(
      mapping,
      'that is no JSON object of headers; map single headers, or change the secret',
    );
  for (const [name, text] of headers) {
    const mistake = headerNameMistake(name) ?? headerValueMistake(text);
    if (mistake !== undefined)
      throw secretReferenceError(mapping, `whose secret is no header: it ${mistake}`);
  }
  return headers;
}

function secretReferenceError({ targetField }: SecretMapping, reason: string): GatewayError {
  return new GatewayError(
    'credentials_failed',
    `The MCP integration takes its ${targetField} from a secret reference ${reason}.`,
  );
}
