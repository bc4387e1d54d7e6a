import { maySend, originOf } from '../../../core/providers/secret-origins.ts';
import { GatewayError, type Scope } from '../../../core/pipeline/plugin.ts';
import type { SecretMapping } from '../../../core/ports/record-kinds.ts';
import type { McpAddress } from '../../../core/ports/mcp.ts';
import type { StoredRecord } from '../../../core/ports/records.ts';
import type { ResourcesReader } from '../../../core/ports/resources.ts';
import { isAllowedIn } from '../../../core/ports/secret-managers.ts';
import { headersOf, openSecrets } from '../shared/sealed-secrets.ts';
import { headersSetAnew, hopByHopHeaders, isHeaderName } from '../../../core/base/header-names.ts';
import type { MappableFields } from '../integrations/record.ts';
import type { BodyMistake } from '../shared/fields.ts';

/** The secret of an MCP integration that holds its headers, as JSON. */
export const customHeadersField = 'configurations.custom_headers';

/** Headers that the protocol itself sets. */
const ofProtocol: ReadonlySet<string> = new Set([
  ...['accept', 'content-type', 'last-event-id', 'mcp-protocol-version', 'mcp-session-id'],
]);

/** Reason why a header of this name is not allowed; undefined when it is. */
function headerNameMistake(name: string): string | undefined {
  if (!isHeaderName(name)) return 'is no name of a header';
  const lower = name.toLowerCase();
  const isOurs = hopByHopHeaders.has(lower) || headersSetAnew.has(lower) || ofProtocol.has(lower);
  return isOurs ? 'is set by the gateway itself; leave it out' : undefined;
}

/** Reason why a header cannot have this value; undefined when it can. */
function headerValueMistake(value: string): string | undefined {
  return /^[\t\x20-\x7e\x80-\xff]*$/.test(value)
    ? undefined
    : 'holds characters that the value of a header cannot have';
}

/** Every mistake in the names and values of headers. */
export function headerMistakes(headers: Readonly<Record<string, string>>, path: string): BodyMistake[] {
  const mistakes: BodyMistake[] = [];
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

/** Name of the header that a mapping targets; undefined when it targets all headers at once. */
function mappedHeader(targetField: string): string | undefined {
  return targetField === customHeadersField ? undefined : targetField.slice(customHeadersField.length + 1);
}

/** Fields of an MCP integration that secret references may fill: one header, or all headers as JSON. */
export const mappableHeaders: MappableFields = {
  canonical: (target) => target.replace(/^model_config\./, 'configurations.'),
  refusal(field) {
    if (field === customHeadersField) return undefined;
    if (field.startsWith(`${customHeadersField}.`)) return headerNameMistake(mappedHeader(field) ?? '');
    return `is no field of an MCP integration; it can be ${customHeadersField}.<name of a header>, or ${customHeadersField} for a JSON object`;
  },
};

const maxFailureLength = 1000;
/** Shorter header values are not hidden: they would match parts of ordinary words. */
const shortestHidden = 4;

/** Result of a handshake. */
export type Handshake<T> =
  | { readonly value: T }
  | {
      /** A sentence for users, without header values. */
      readonly failure: string;
      /** HTTP status of the server's answer; undefined without an answer. */
      readonly status: number | undefined;
    };

/** Parts of the scope for handshakes. */
export type HandshakeScope = Pick<Scope, 'log' | 'mcp' | 'secrets' | 'secretManagers'>;

/**
 * Connects to the server of an MCP integration, for the workspace or for the organisation itself. Never rejects: a
 * failure is a result, too. Do not call it within a transaction.
 */
export async function shakeHands<T>(
  scope: HandshakeScope,
  integration: ReferringIntegration,
  workspaceId: string | undefined,
  speak: (address: McpAddress) => Promise<T>,
): Promise<Handshake<T>> {
  let address: McpAddress | undefined;
  try {
    address = await addressOf(integration, workspaceId, scope);
    return { value: await speak(address) };
  } catch (error) {
    if (GatewayError.is(error)) {
      const status = error.extra?.['status'];
      return {
        failure: withoutValues(error.message, address).slice(0, maxFailureLength),
        status: typeof status === 'number' && Number.isInteger(status) ? status : undefined,
      };
    }
    const { id } = integration.record;
    const reason = withoutValues(String(error), address);
    scope.log.error('A handshake with an MCP server broke off', { integration: id, error: reason });
    return { failure: 'The gateway itself failed in the handshake; its log says why.', status: undefined };
  }
}

function withoutValues(message: string, address: McpAddress | undefined): string {
  let text = message;
  const values = address?.headers.filter((_, index) => index % 2 === 1) ?? [];
  for (const value of values) if (value.length >= shortestHidden) text = text.replaceAll(value, '…');
  return text;
}

/** An MCP integration with its stored secret references. */
export interface ReferringIntegration {
  readonly record: StoredRecord<'mcp_integration'>;
  /** In the order of its mappings; undefined for a deleted one. */
  readonly references: readonly (StoredRecord<'secret_reference'> | undefined)[];
}

/** Reads the secret references of an MCP integration for `addressOf`, which runs outside of the transaction. */
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
 * Address of the server and its headers: those of the record, overridden by those of its mappings. Undefined
 * `workspaceId` means requests of the organisation itself, which may use references for all workspaces. Rejects with
 * `credentials_failed` for a secret that is missing or not allowed.
 */
async function addressOf(
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
      throw secretReferenceError(mapping, 'that does not exist any more; name another one');
    if (!isAllowed)
      throw secretReferenceError(
        mapping,
        workspaceId === undefined
          ? 'that is not for all workspaces; say whose request it is with workspace_id'
          : 'that the workspace may not use; allow it, or name another one',
      );
    if (!maySend(reference.data, originOf(data.url)))
      throw secretReferenceError(
        mapping,
        'whose secret may not be sent to its host; add the host to its allowed_hosts',
      );
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
