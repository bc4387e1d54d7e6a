import { facts } from '@/api/facts';
import { apiAddress, send } from '@/api/client';
import { serverEvents } from '@/lib/events';
import { isObject, objectOf } from '@/lib/json';
import { type Column, emptyRun, type Run } from '@/pages/playground/columns';
import { type Message, sentMessages } from '@/pages/playground/messages';

/** A request as the gateway takes it. */
export interface Request {
  /** Below the base path. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Readonly<Record<string, unknown>>;
}

/** The gateway refuses `explain` to callers without it. */
export const explainScope = 'logs.view';

/** Longest answer that is shown, in characters. */
const mostText = 1_000_000;
const mostCalls = 64;

export function hasVariables({ variables }: Column): boolean {
  return objectOf(variables) !== undefined;
}

export function hasParameters({ parameters }: Column): boolean {
  return objectOf(parameters) !== undefined;
}

/** The parameters that a column adds to the body of its request; its own fields win over the JSON. */
export function parametersOf(column: Column): Readonly<Record<string, unknown>> {
  return {
    ...objectOf(column.parameters),
    ...(column.temperature !== '' && { temperature: Number(column.temperature) }),
    ...(column.maxTokens !== '' && { max_tokens: Number(column.maxTokens) }),
  };
}

/** The request of a column. */
export function requestOf(column: Column, messages: readonly Message[], tools: readonly unknown[]): Request {
  const { kind, provider, model, config, prompt, stream } = column;
  const parameters = parametersOf(column);
  const explained = column.explain && { [`${facts.prefix}-explain`]: 'true' };
  const streamed = stream && { stream: true, stream_options: { include_usage: true } };
  if (kind === 'prompt')
    return {
      path: `/prompts/${encodeURIComponent(prompt)}/completions`,
      headers: { ...explained },
      body: { ...parameters, variables: objectOf(column.variables) ?? {}, ...streamed },
    };
  return {
    path: '/chat/completions',
    headers: {
      ...(kind === 'config' && config !== '' && { [`${facts.prefix}-config`]: config }),
      ...(kind === 'model' && provider !== '' && { [`${facts.prefix}-provider`]: provider }),
      ...explained,
    },
    body: {
      ...parameters,
      ...(model !== '' && { model }),
      messages: sentMessages(messages),
      ...(tools.length > 0 && { tools }),
      ...streamed,
    },
  };
}

/** Sends a request, and tells each step of its answer. Resolves when it has ended, whatever came of it. */
export async function runRequest(
  { path, headers, body }: Request,
  signal: AbortSignal,
  tell: (run: Run) => void,
): Promise<void> {
  const begun = performance.now();
  const since = (): number => performance.now() - begun;
  let run = emptyRun;
  const step = (change: Partial<Run>): void => tell((run = { ...run, ...change }));
  step({});
  try {
    const answer = await send(path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
      signal,
    });
    const said = (name: string): string => answer.headers.get(`${facts.prefix}-${name}`) ?? '';
    step({
      state: 'running',
      status: answer.status,
      firstByteMs: since(),
      provider: said('provider'),
      traceId: said('trace-id'),
    });
    if (answer.headers.get('content-type')?.startsWith('text/event-stream') === true)
      for await (const { data } of serverEvents(answer)) {
        if (data !== '' && data !== '[DONE]') step(added(run, JSON.parse(data) as unknown, 'delta'));
      }
    else step(added(run, (await answer.json()) as unknown, 'message'));
    step({ state: 'done', totalMs: since() });
  } catch (error) {
    if (signal.aborted) return step({ state: 'stopped', totalMs: since() });
    const status = isObject(error) && typeof error['status'] === 'number' ? error['status'] : 0;
    step({
      state: 'failed',
      status,
      fault: error instanceof Error ? error.message : String(error),
      totalMs: since(),
    });
  }
}

/** The run with what an answer, or a piece of one, adds. */
function added(run: Run, value: unknown, member: 'delta' | 'message'): Partial<Run> {
  if (!isObject(value)) return {};
  const fault = isObject(value['error']) ? String(value['error']['message'] ?? '') : '';
  if (fault !== '') throw new Error(fault);
  const choices: readonly unknown[] = Array.isArray(value['choices']) ? value['choices'] : [];
  const [choice] = choices;
  const part = isObject(choice) && isObject(choice[member]) ? choice[member] : {};
  const content = typeof part['content'] === 'string' ? part['content'] : '';
  const usage = isObject(value['usage']) ? value['usage'] : undefined;
  const calls = [...run.calls];
  const told: readonly unknown[] = Array.isArray(part['tool_calls']) ? part['tool_calls'] : [];
  told.forEach((one, position) => {
    if (!isObject(one)) return;
    const index = typeof one['index'] === 'number' ? one['index'] : position;
    if (index < 0 || index >= mostCalls) return;
    const called = isObject(one['function']) ? one['function'] : {};
    const before = calls[index] ?? { id: '', name: '', arguments: '' };
    calls[index] = {
      id: typeof one['id'] === 'string' && one['id'] !== '' ? one['id'] : before.id,
      name: before.name + String(called['name'] ?? ''),
      arguments: before.arguments + String(called['arguments'] ?? ''),
    };
  });
  return {
    text: (run.text + content).slice(0, mostText),
    calls,
    ...(typeof value['model'] === 'string' && value['model'] !== '' && { model: value['model'] }),
    ...(usage !== undefined && {
      tokens: [Number(usage['prompt_tokens'] ?? 0), Number(usage['completion_tokens'] ?? 0)] as const,
    }),
  };
}

/** The request as code, with a placeholder for the key. */
export function codeOf(language: 'curl' | 'python' | 'typescript', { path, headers, body }: Request): string {
  const all = { [`${facts.prefix}-api-key`]: 'YOUR_KEY', ...headers };
  const text = JSON.stringify(body, null, 2);
  if (language === 'curl') {
    const lines = Object.entries({ 'content-type': 'application/json', ...all }).map(
      ([name, value]) => `  -H ${shell(`${name}: ${value}`)} \\`,
    );
    return [`curl ${shell(apiAddress + path)} \\`, ...lines, `  -d ${shell(text)}`].join('\n');
  }
  if (language === 'python')
    return [
      'import json',
      'import urllib.request',
      '',
      `body = json.loads(${JSON.stringify(JSON.stringify(body))})`,
      'request = urllib.request.Request(',
      `    ${JSON.stringify(apiAddress + path)},`,
      '    data=json.dumps(body).encode(),',
      `    headers=${JSON.stringify({ 'content-type': 'application/json', ...all })},`,
      ')',
      'with urllib.request.urlopen(request) as answer:',
      '    for line in answer:',
      '        print(line.decode(), end="")',
    ].join('\n');
  return [
    `const answer = await fetch(${JSON.stringify(apiAddress + path)}, {`,
    "  method: 'POST',",
    `  headers: ${JSON.stringify({ 'content-type': 'application/json', ...all })},`,
    `  body: JSON.stringify(${text.replaceAll('\n', '\n  ')}),`,
    '});',
    'console.log(await answer.text());',
  ].join('\n');
}

function shell(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
