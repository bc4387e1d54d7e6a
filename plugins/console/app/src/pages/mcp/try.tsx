import { useEffect, useRef, useState } from 'react';
import { useMutation } from '@tanstack/react-query';
import { Play } from 'lucide-react';
import { ApiError, ask, errorOf } from '@/api/client';
import { eventsOf } from '@/lib/events';
import { duration } from '@/lib/format';
import { mcp as texts } from '@/texts/mcp';
import { Button } from '@/ui/button';
import { Field, Select, Textarea } from '@/ui/fields';
import { CodeBlock } from '@/ui/small';
import { Empty, Failed } from '@/ui/states';

interface Tool {
  readonly name: string;
  readonly description?: string;
  readonly inputSchema?: {
    readonly properties?: Readonly<Record<string, unknown>>;
    readonly required?: readonly string[];
  };
}

interface Message {
  readonly id?: number;
  readonly result?: Readonly<Record<string, unknown>>;
  readonly error?: { readonly code: number; readonly message: string };
}

const protocol = '2025-06-18';
const mostPages = 50;

/** A conversation with a server of the gateway, as an agent has it. */
class Conversation {
  readonly #path: string;
  #session: string | undefined;
  #last = 0;

  constructor(slug: string) {
    this.#path = `/${encodeURIComponent(slug)}/mcp`;
  }

  /** Greets the server and asks for its tools. */
  async open(): Promise<readonly Tool[]> {
    const clientInfo = { name: 'console', version: '1' };
    await this.call('initialize', { protocolVersion: protocol, capabilities: {}, clientInfo });
    await this.#send({ method: 'notifications/initialized' });
    const tools: Tool[] = [];
    let cursor: unknown;
    for (let page = 0; page < mostPages; page += 1) {
      const found = await this.call('tools/list', cursor === undefined ? {} : { cursor });
      if (Array.isArray(found['tools'])) tools.push(...(found['tools'] as readonly Tool[]));
      cursor = found['nextCursor'];
      if (cursor === undefined) break;
    }
    return tools;
  }

  /** The result of a request. Rejects with the error of the server, or of the gateway. */
  async call(method: string, params: object): Promise<Readonly<Record<string, unknown>>> {
    this.#last += 1;
    const id = this.#last;
    const answer = await this.#send({ id, method, params });
    this.#session ??= answer.headers.get('mcp-session-id') ?? undefined;
    const messages = messagesOf(await answer.text(), answer.headers.get('content-type') ?? '');
    const message = messages.find((one) => one.id === id);
    if (message?.error) throw new ApiError(200, String(message.error.code), message.error.message, '');
    return message?.result ?? {};
  }

  /** Ends the session; what is kept for it is freed. */
  close(): void {
    if (this.#session === undefined) return;
    ask(this.#path, { method: 'DELETE', headers: this.#headers() }).catch(() => undefined);
    this.#session = undefined;
  }

  #headers(): Record<string, string> {
    const own = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
    if (this.#session === undefined) return own;
    return { ...own, 'mcp-session-id': this.#session, 'mcp-protocol-version': protocol };
  }

  async #send(message: object): Promise<Response> {
    const body = JSON.stringify({ jsonrpc: '2.0', ...message });
    const answer = await ask(this.#path, { method: 'POST', headers: this.#headers(), body });
    if (!answer.ok) throw await errorOf(answer);
    return answer;
  }
}

/** The messages of an answer: JSON, or a stream of events. */
function messagesOf(text: string, type: string): readonly Message[] {
  if (text === '') return [];
  if (!type.startsWith('text/event-stream')) return [JSON.parse(text) as Message].flat();
  return eventsOf(text).flatMap(({ data }) => [JSON.parse(data) as Message].flat());
}

/** The needed arguments of a tool, to be filled in. */
function sampleOf({ inputSchema }: Tool): string {
  const { properties = {}, required = [] } = inputSchema ?? {};
  const needed = Object.entries(properties).filter(([name]) => required.includes(name));
  return JSON.stringify(Object.fromEntries(needed.map(([name, schema]) => [name, blankOf(schema)])), null, 2);
}

function blankOf(schema: unknown): unknown {
  const type = typeof schema === 'object' && schema !== null && 'type' in schema ? schema.type : undefined;
  if (type === 'number' || type === 'integer') return 0;
  if (type === 'boolean') return false;
  if (type === 'array') return [];
  return type === 'object' ? {} : '';
}

function argumentsOf(text: string): object {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // Told below.
  }
  if (typeof value !== 'object' || value === null) throw new Error(texts.try.noJson);
  return value;
}

/** Calls a tool of a server through the gateway, as an agent would. */
export function TryTool({ slug }: { readonly slug: string }) {
  const conversation = useRef<Conversation>(undefined);
  const [chosen, setChosen] = useState('');
  const [given, setGiven] = useState('{}');
  useEffect(() => () => conversation.current?.close(), []);
  const call = useMutation({
    mutationFn: async () => {
      const start = performance.now();
      const asked = { name: chosen, arguments: argumentsOf(given) };
      const result = await conversation.current?.call('tools/call', asked);
      return { result: result ?? {}, ms: performance.now() - start };
    },
  });
  const choose = (tool: Tool | undefined): void => {
    setChosen(tool?.name ?? '');
    setGiven(tool === undefined ? '{}' : sampleOf(tool));
    call.reset();
  };
  const list = useMutation({
    mutationFn: () => {
      conversation.current?.close();
      conversation.current = new Conversation(slug);
      return conversation.current.open();
    },
    onSuccess: (tools) => choose(tools[0]),
  });
  const tools = list.data ?? [];
  const tool = tools.find(({ name }) => name === chosen);
  return (
    <div className="grid gap-4">
      <p className="text-soft">{texts.try.intro}</p>
      <div>
        <Button
          kind={list.data === undefined ? 'primary' : 'plain'}
          busy={list.isPending}
          onClick={() => list.mutate()}
        >
          {texts.try.connect}
        </Button>
      </div>
      {list.error !== null && <Failed error={list.error} />}
      {list.data?.length === 0 && <Empty title={texts.try.none} />}
      {tools.length > 0 && (
        <>
          <Field label={texts.try.tool} help={tool?.description}>
            {(control) => (
              <Select
                {...control}
                value={chosen}
                options={tools.map(({ name }) => [name, name] as const)}
                onChange={({ target }) => choose(tools.find(({ name }) => name === target.value))}
              />
            )}
          </Field>
          <Field label={texts.try.arguments}>
            {(control) => (
              <Textarea
                {...control}
                spellCheck={false}
                className="font-mono text-xs"
                rows={Math.min(14, given.split('\n').length + 1)}
                value={given}
                onChange={({ target }) => setGiven(target.value)}
              />
            )}
          </Field>
          <div>
            <Button kind="primary" busy={call.isPending} onClick={() => call.mutate()}>
              <Play className="size-4" />
              {texts.try.call}
            </Button>
          </div>
        </>
      )}
      <div aria-live="polite" className="grid gap-2">
        {call.error !== null && (
          <p role="alert" className="bg-bad-wash text-bad rounded-md p-3 break-words">
            {texts.try.refused(call.error.message)}
          </p>
        )}
        {call.data !== undefined && <Result {...call.data} />}
      </div>
    </div>
  );
}

interface ResultProps {
  readonly result: Readonly<Record<string, unknown>>;
  readonly ms: number;
}

function Result({ result, ms }: ResultProps) {
  const content = Array.isArray(result['content'])
    ? (result['content'] as readonly { readonly type?: string; readonly text?: unknown }[])
    : [];
  const structured = result['structuredContent'];
  const failed = result['isError'] === true;
  return (
    <>
      <h4 className={failed ? 'text-bad font-semibold' : 'font-semibold'}>
        {failed ? texts.try.failedResult : texts.try.result}{' '}
        <span className="text-soft font-normal">{texts.try.time(duration(ms))}</span>
      </h4>
      {content.map(({ type, text }, index) => (
        <CodeBlock key={index} text={typeof text === 'string' ? text : texts.try.other(type ?? '?')} />
      ))}
      {structured !== undefined && (
        <>
          <h4 className="font-semibold">{texts.try.structured}</h4>
          <CodeBlock text={JSON.stringify(structured, null, 2)} />
        </>
      )}
    </>
  );
}
