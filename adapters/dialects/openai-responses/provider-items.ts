import type { OpaquePart, ProviderToolPart } from '../../../core/dialects/canonical/chat-part.ts';
import { asArray, asObject, asText, type JsonObject } from '../json-reading.ts';

const dialect = 'openai-responses';

/** Items of tools that do not end in `_call`, and what they are named for. */
const otherTools: Readonly<Record<string, string>> = {
  mcp_list_tools: 'mcp_list_tools',
  mcp_approval_request: 'mcp_approval_request',
  mcp_approval_response: 'mcp_approval_response',
  tool_search_output: 'tool_search',
  program: 'program',
  program_output: 'program',
};

/** An item that is no message, no reasoning and no call for the client: a tool that the provider ran, or what only this wire knows. */
export function providerItem(item: JsonObject): ProviderToolPart | OpaquePart {
  const type = asText(item.type) ?? '';
  const isResult = type.endsWith('_output') || type === 'mcp_approval_response';
  const stem = type.replace(/_output$/, '');
  const named = otherTools[type] ?? (stem.endsWith('_call') ? stem.slice(0, -'_call'.length) : undefined);
  if (named === undefined) return { type: 'opaque', dialect, value: item };
  return {
    type: 'provider-tool',
    dialect,
    phase: isResult ? 'result' : 'call',
    id: asText(item.id) ?? asText(item.call_id) ?? '',
    name: type === 'mcp_call' || type === 'custom_tool_call' ? (asText(item.name) ?? named) : named,
    value: item,
  };
}

/**
 * Whether a custom call is one that the provider runs itself: some hosts write the calls of their own tools so. The
 * answer repeats the tools of the request; a custom call for none of them is not for the client.
 */
export function isProviderRun(item: JsonObject, tools: unknown): boolean {
  if (item.type !== 'custom_tool_call' || !Array.isArray(tools) || tools.length === 0) return false;
  return !asArray(tools).some((value) => {
    const tool = asObject(value);
    return tool?.type === 'custom' || tool?.type === 'namespace';
  });
}
