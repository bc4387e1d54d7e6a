import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { type Clock, systemClock } from '../../core/ports/clock.ts';
import type { McpStdioTarget, McpUpstream } from '../../core/ports/mcp.ts';
import { eventually } from '../../tests/kit/process-kit.ts';
import { defaultRuntime, launcher } from '../../tests/kit/runtimes.ts';
import { testTransport } from '../transport/transport.test-support.ts';
import { createMcpClients } from './create-mcp-clients.ts';
import { keepingLog } from './mcp.test-support.ts';
import { ask, toolCall } from './upstream.test-support.ts';

const program = fileURLToPath(new URL('../../tests/kit/stdio-mcp.ts', import.meta.url));

/** The server of scenes as a child process. */
export function sceneTarget(overrides: Partial<McpStdioTarget> = {}): McpStdioTarget {
  const { program: command, args } = launcher(defaultRuntime);
  return {
    ...{ type: 'stdio', name: 'scenes', command, args: [...args, program], env: {} },
    ...{ maxChildren: 4 },
    ...overrides,
  };
}

/** The way to a child, which is closed after the test. */
export function startStdio(
  t: TestContext,
  target: McpStdioTarget,
  clock: Clock = systemClock,
): { upstream: McpUpstream; log: ReturnType<typeof keepingLog> } {
  const log = keepingLog();
  const transport = testTransport();
  const upstream = createMcpClients({ log, clock, transport, trustedHosts: [] }).upstream(target);
  t.after(async () => {
    await upstream.close();
    await transport.close();
  });
  return { upstream, log };
}

/** Text of the result of a tool. */
export async function callTool(
  upstream: McpUpstream,
  sessionId: string,
  name: string,
  args: object = {},
): Promise<string> {
  const { body, error } = await ask(upstream, { sessionId, body: toolCall('t', name, args) });
  if (error !== undefined) throw error;
  const data = body.split('\n').findLast((line) => line.includes('"result"')) ?? body;
  const answer = JSON.parse(data.replace(/^data: /, '')) as { result?: { content: { text: string }[] } };
  const text = answer.result?.content[0]?.text;
  if (text === undefined) throw new Error(`No text: ${body}`);
  return text;
}

/** Waits until a process is gone. */
export async function untilGone(pid: number): Promise<void> {
  await eventually(
    () => !isAlive(pid) || undefined,
    () => `the end of process ${pid}`,
  );
}

/** Whether a process is there. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
