import type { ChatRequest, ToolChoice } from '../../../core/dialects/canonical/chat-request.ts';
import type { EncodeReport } from '../../../core/dialects/canonical/encode-report.ts';
import type { JsonObject } from '../json-reading.ts';
import { customAsFunction } from './custom-tool.ts';
import { ownExtras, reportExtras } from './request-report.ts';

/** Writes `tools`, `tool_choice` and `strict_tools`. */
export function encodeTools(body: JsonObject, request: ChatRequest, report: EncodeReport): void {
  const allowed = allowedNames(request.toolChoice);
  const tools: JsonObject[] = [];
  let strict = 0;
  for (const [index, tool] of request.tools.entries()) {
    const at = `tools[${index}]`;
    if (tool.type === 'provider' && tool.dialect === 'cohere-v2') {
      tools.push(tool.value);
      continue;
    }
    if (tool.type === 'provider') {
      report.drop(at);
      continue;
    }
    if (tool.cache !== undefined) report.drop(`${at}.cache_control`);
    if (allowed !== undefined && !allowed.includes(tool.name)) continue;
    if (tool.type === 'custom') {
      report.emulate(at);
      if (tool.format !== undefined) report.drop(`${at}.custom.format`);
      tools.push(customAsFunction(tool));
      continue;
    }
    reportExtras(tool.extras, report, `${at}.`);
    if (tool.strict === true) strict++;
    const definition: JsonObject = { name: tool.name };
    if (tool.description !== undefined) definition.description = tool.description;
    definition.parameters = tool.parameters ?? { type: 'object', properties: {} };
    tools.push({ type: 'function', function: definition, ...ownExtras(tool.extras) });
  }
  if (request.parallelToolCalls === false && tools.length > 0) report.drop('parallel_tool_calls');
  if (tools.length === 0) return;
  body.tools = tools;
  // One switch for all of them: it is set when all want it.
  if (strict === tools.length) body.strict_tools = true;
  else if (strict > 0) report.drop('tools[].function.strict');
  encodeChoice(body, request.toolChoice, report);
}

function encodeChoice(body: JsonObject, choice: ToolChoice | undefined, report: EncodeReport): void {
  switch (choice?.type) {
    case undefined:
    case 'auto':
      return;
    case 'none':
      body.tool_choice = 'NONE';
      return;
    case 'required':
      body.tool_choice = 'REQUIRED';
      return;
    case 'tool':
      report.emulate('tool_choice');
      body.tool_choice = 'REQUIRED';
      return;
    case 'allowed':
      report.emulate('tool_choice');
      if (choice.mode === 'required') body.tool_choice = 'REQUIRED';
  }
}

/** Cohere cannot be told to call one tool: it is shown no other. */
function allowedNames(choice: ToolChoice | undefined): readonly string[] | undefined {
  if (choice?.type === 'tool') return [choice.name];
  return choice?.type === 'allowed' ? choice.names : undefined;
}
