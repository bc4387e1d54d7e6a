import { maySend, originOf } from '../../core/providers/secret-origins.ts';
import { GatewayError, type Scope } from '../../core/pipeline/plugin.ts';
import type { SecretMapping } from '../../core/ports/record-kinds.ts';
import type { McpAddress } from '../../core/ports/mcp.ts';
import type { StoredRecord } from '../../core/ports/records.ts';
import type { ResourcesReader } from '../../core/ports/resources.ts';
import { isAllowedIn } from '../../core/ports/secret-managers.ts';
import { headersOf, openSecrets } from './integration-secrets.ts';
import { customHeadersField, headerNameMistake, headerValueMistake, mappedHeader } from './mcp-headers.ts';

/** An MCP integration with the secret references that it names, as the store has them. */
export interface ReferringIntegration {
  readonly record: StoredRecord<'mcp_integration'>;
  /** In the order of its mappings; undefined for one that is gone. */
  readonly references: readonly (StoredRecord<'secret_reference'> | undefined)[];
}

/** Reads what an MCP integration refers to: what `addressOf` needs, which runs outside of the transaction. */
export async function withReferences(
  { records }: Pick<ResourcesReader, 'records'>,
  record: StoredRecord<'mcp_integration'>,
): Promise<ReferringIntegration> {
  const { organisationId, data } = record;
  const references: ReferringIntegration['references'][number][] = [];
  for (const { secretReferenceId } of data.secretMappings)
    references.push(await records.find('secret_reference', { organisationId }, secretReferenceId));
  return { record, references };
}

/**
 * Where the server listens and what it is sent: the headers of the record, and those of its mappings over them.
 * `workspaceId` says whose requests these are; undefined for the organisation's own, which may use references that are
 * for all workspaces. Rejects with `credentials_failed` for a secret that there is not, or not for them.
 */
export async function addressOf(
  { record, references }: ReferringIntegration,
  workspaceId: string | undefined,
  { secrets, secretManagers: managers }: Pick<Scope, 'secrets' | 'secretManagers'>,
): Promise<McpAddress> {
  const { data } = record;
  const headers = new Map<string, readonly [string, string]>();
  const add = (name: string, value: string): void =>
    void headers.set(name.toLowerCase(), [name, value] as const);
  for (const [name, value] of Object.entries(headersOf(openSecrets(secrets, record)[customHeadersField])))
    add(name, value);
  for (const [index, mapping] of data.secretMappings.entries()) {
    const reference = references[index];
    const isAllowed =
      workspaceId === undefined
        ? reference?.data.allowAllWorkspaces === true
        : reference !== undefined && isAllowedIn(reference.data, workspaceId);
    if (reference?.status !== 'active')
      throw refused(mapping, 'that does not exist any more; name another one');
    if (!isAllowed)
      throw refused(
        mapping,
        workspaceId === undefined
          ? 'that is not for all workspaces; say whose request it is with workspace_id'
          : 'that the workspace may not use; allow it, or name another one',
      );
    if (!maySend(reference.data, originOf(data.url)))
      throw refused(mapping, 'whose secret may not be sent to its host; add the host to its allowed_hosts');
    const secretKey = mapping.secretKey === '' ? undefined : mapping.secretKey;
    const value = await managers.value(reference, secrets, secretKey);
    for (const [name, text] of mappedHeaders(mapping, value)) add(name, text);
  }
  return { url: data.url, transport: data.transport, headers: [...headers.values()].flat() };
}

function mappedHeaders(mapping: SecretMapping, value: string): readonly (readonly [string, string])[] {
  const single = mappedHeader(mapping.targetField);
  const headers = single === undefined ? Object.entries(headersOf(value)) : [[single, value] as const];
  if (headers.length === 0)
    throw refused(mapping, 'that is no JSON object of headers; map single headers, or change the secret');
  for (const [name, text] of headers) {
    const mistake = headerNameMistake(name) ?? headerValueMistake(text);
    if (mistake !== undefined) throw refused(mapping, `whose secret is no header: it ${mistake}`);
  }
  return headers;
}

function refused({ targetField }: SecretMapping, reason: string): GatewayError {
  return new GatewayError(
    'credentials_failed',
    `The MCP integration takes its ${targetField} from a secret reference ${reason}.`,
  );
}
