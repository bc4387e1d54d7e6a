/**
 * Stands in for the plugin `mcp` where a test is about what stands in front of it: it answers JSON-RPC `tools/call`, one
 * or a batch, through the gates of the pipeline, and speaks to no server.
 */
import { writeJson } from '../../core/base/json.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { JsonObject, JsonValue } from '../../core/pipeline/context.ts';
import { type AnyPlugin, definePlugin, type RequestContext } from '../../core/pipeline/plugin.ts';
import { type ToolCall, toolCallGates, type ToolResult } from '../../core/pipeline/tool-calls.ts';

/** A tool of every server: its name says what it does. */
type Tools = Readonly<Record<string, (given: JsonObject) => JsonValue>>;

/** A server that stands in for one of the plugin's options. */
type OfServer = Pick<ToolCall, 'guardrails'>;

/** Calls one tool through the gates of a request, as `mcp` does. */
export async function callThroughGates(
  context: RequestContext,
  call: ToolCall,
  run: (given: JsonObject) => JsonValue,
): Promise<JsonValue> {
  const gates = toolCallGates(context);
  for (const gate of gates) await gate.before?.(call);
  const result: ToolResult = { result: run(call.arguments) };
  for (const gate of gates) if (gate.wantsResult?.(call) !== false) await gate.after?.(call, result);
  return result.result;
}

/** The plugin; `servers` are the settings of servers by their slugs. */
export function toolsPlugin(tools: Tools, servers: Readonly<Record<string, OfServer>> = {}): AnyPlugin {
  return definePlugin({
    name: 'tools',
    capabilities: { answers: true },
    create: () => ({
      async request(context) {
        await context.body.load();
        const slug = /^\/([^/]+)\/mcp$/.exec(context.path)?.[1] ?? '';
        const { json } = context;
        const messages = (Array.isArray(json) ? json : [json]) as readonly JsonObject[];
        const answers: JsonObject[] = [];
        for (const { id = null, params } of messages) {
          const { name, arguments: given = {} } = params as { name: string; arguments?: JsonObject };
          const call = { server: slug, tool: name, arguments: given, ...servers[slug] };
          const run = tools[name] ?? (() => ({ content: [] }));
          try {
            answers.push({ jsonrpc: '2.0', id, result: await callThroughGates(context, call, run) });
          } catch (error) {
            if (!GatewayError.is(error) || !Array.isArray(json)) throw error;
            const { code, message, extra } = error;
            const told = { code: -32_000, message, data: { code, ...extra } };
            answers.push({ jsonrpc: '2.0', id, error: JSON.parse(JSON.stringify(told)) as JsonValue });
          }
        }
        return {
          status: 200,
          headers: ['content-type', 'application/json'],
          body: Buffer.from(writeJson(Array.isArray(json) ? answers : answers[0])),
          source: 'gateway' as const,
        };
      },
    }),
  });
}
