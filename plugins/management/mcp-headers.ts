import { headersSetAnew, hopByHopHeaders, isHeaderName } from '../../core/base/header-names.ts';
import type { MappableFields } from './integration-mappings.ts';
import type { BodyMistake } from './refused-body.ts';

/** The secret of an MCP integration that holds its headers, as JSON. */
export const customHeadersField = 'configurations.custom_headers';

/** What the protocol itself says in every request. */
const ofProtocol: ReadonlySet<string> = new Set([
  ...['accept', 'content-type', 'last-event-id', 'mcp-protocol-version', 'mcp-session-id'],
]);

/** Why nobody can give a header of this name; undefined when somebody can. */
export function headerNameMistake(name: string): string | undefined {
  if (!isHeaderName(name)) return 'is no name of a header';
  const lower = name.toLowerCase();
  const isOurs = hopByHopHeaders.has(lower) || headersSetAnew.has(lower) || ofProtocol.has(lower);
  return isOurs ? 'is set by the gateway itself; leave it out' : undefined;
}

/** Why no header can have this value; undefined when one can. */
export function headerValueMistake(value: string): string | undefined {
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

/** The name of the header that a mapping of this field is for; undefined for all of them at once. */
export function mappedHeader(targetField: string): string | undefined {
  return targetField === customHeadersField ? undefined : targetField.slice(customHeadersField.length + 1);
}

/** What secret references can stand for in an MCP integration: one header, or all of them as JSON. */
export const mappableHeaders: MappableFields = {
  canonical: (target) => target.replace(/^model_config\./, 'configurations.'),
  refusal(field) {
    if (field === customHeadersField) return undefined;
    if (field.startsWith(`${customHeadersField}.`)) return headerNameMistake(mappedHeader(field) ?? '');
    return `is no field of an MCP integration; it can be ${customHeadersField}.<name of a header>, or ${customHeadersField} for a JSON object`;
  },
};
