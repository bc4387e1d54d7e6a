import { post, question } from '../../main/bench-command/load.ts';
import { idleUser } from '../../main/bench-command/upstream.ts';

/** The key that the bench sets for the gateway. */
export const benchKey = 'wk_bench_0123456789abcdef';

/** A whole HTTP request as bytes: 310-byte chat question, streamed or not; `user` makes it one of its own. */
export function requestBytes(port: number, stream: boolean, user?: string): Buffer {
  const body = JSON.stringify({
    ...question,
    ...(stream ? { stream: true, stream_options: { include_usage: true } } : {}),
    ...(user === undefined ? {} : { user }),
  });
  return postBytes(port, '/v1/chat/completions', body);
}

/** A chat question whose streamed answer stays silent after its first event. */
export function idleRequestBytes(port: number): Buffer {
  return requestBytes(port, true, idleUser);
}

/** The same chat question without streaming, routed by the config of this name instead of by a provider's. */
export function configuredRequestBytes(port: number, slug: string): Buffer {
  return postBytes(port, '/v1/chat/completions', JSON.stringify(question), `x-service-config: ${slug}`);
}

/** Tools that the bench's MCP server lists. */
export const listedTools = 500;

/** A request of the Streamable HTTP transport of MCP, with a message or, for `GET`, without. */
export function mcpBytes(
  port: number,
  method: 'POST' | 'GET',
  path: string,
  message: object | undefined,
  session = '',
): Buffer {
  const body = message === undefined ? '' : JSON.stringify(message);
  const head = [
    `${method} ${path} HTTP/1.1`,
    `host: 127.0.0.1:${port}`,
    `x-service-api-key: ${benchKey}`,
    'mcp-protocol-version: 2025-11-25',
    ...(session === '' ? [] : [`mcp-session-id: ${session}`]),
    'user-agent: weir-bench/1',
    'accept: application/json, text/event-stream',
    ...(message === undefined
      ? []
      : ['content-type: application/json', `content-length: ${Buffer.byteLength(body)}`]),
  ];
  return Buffer.from(`${head.join('\r\n')}\r\n\r\n${body}`);
}

function postBytes(port: number, path: string, body: string, route = 'x-service-provider: bench'): Buffer {
  return post(port, path, [`x-service-api-key: ${benchKey}`, route, 'authorization: Bearer sk-bench'], body);
}

/** The same question as a Messages client streams it: the gateway translates it both ways. */
export function messagesRequestBytes(port: number): Buffer {
  const [system, user] = question.messages;
  const body = JSON.stringify({
    model: question.model,
    system: system?.content,
    messages: [user],
    temperature: question.temperature,
    max_tokens: question.max_completion_tokens,
    stream: true,
  });
  return postBytes(port, '/v1/messages', body);
}
