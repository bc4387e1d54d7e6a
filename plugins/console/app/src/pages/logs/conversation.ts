import { eventsOf } from '@/lib/live';

/** A part of a message. */
export type Part =
  | { readonly kind: 'text' | 'thought' | 'refusal'; readonly text: string }
  | { readonly kind: 'image'; readonly url: string }
  | { readonly kind: 'call'; readonly name: string; readonly text: string }
  | { readonly kind: 'result'; readonly name: string; readonly text: string }
  | { readonly kind: 'other'; readonly text: string };

/** One message of a conversation, of any wire. */
export interface Turn {
  readonly role: string;
  readonly parts: readonly Part[];
}

type Json = Readonly<Record<string, unknown>>;

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : value === undefined || value === null ? [] : [value];
}

function textIn(value: unknown): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : JSON.stringify(value, null, 2);
}

function text(value: string, kind: 'text' | 'thought' | 'refusal' = 'text'): Part[] {
  return value === '' ? [] : [{ kind, text: value }];
}

/** Arguments of a tool: as indented JSON where they are JSON. */
function argumentsOf(value: unknown): string {
  if (typeof value !== 'string') return textIn(value ?? {});
  try {
    return JSON.stringify(JSON.parse(value), null, 2);
  } catch {
    return value;
  }
}

function imageOf(type: unknown, data: unknown): Part[] {
  const media = textIn(type) || 'application/octet-stream';
  if (/^image\/(png|jpeg|gif|webp)$/.test(media))
    return [{ kind: 'image', url: `data:${media};base64,${textIn(data)}` }];
  return [{ kind: 'other', text: `[${media}]` }];
}

/** The parts of a content of any wire: a text, or a list of blocks. */
function partsOf(content: unknown): Part[] {
  return listOf(content).flatMap((block) => (isObject(block) ? blockParts(block) : text(textIn(block))));
}

function blockParts(block: Json): Part[] {
  const { type } = block;
  if (type === 'image_url' || type === 'input_image') {
    const url = isObject(block['image_url']) ? block['image_url']['url'] : block['image_url'];
    return [{ kind: 'image', url: textIn(url) }];
  }
  if (type === 'image' && isObject(block['source'])) {
    const { media_type: media, data, url } = block['source'];
    return url === undefined ? imageOf(media, data) : [{ kind: 'image', url: textIn(url) }];
  }
  if (isObject(block['inlineData']))
    return imageOf(block['inlineData']['mimeType'], block['inlineData']['data']);
  if (type === 'tool_use' || type === 'mcp_call' || type === 'function_call' || type === 'server_tool_use')
    return [
      { kind: 'call', name: textIn(block['name']), text: argumentsOf(block['input'] ?? block['arguments']) },
    ];
  if (isObject(block['functionCall'])) {
    const { name, args } = block['functionCall'];
    return [{ kind: 'call', name: textIn(name), text: argumentsOf(args) }];
  }
  if (isObject(block['functionResponse'])) {
    const { name, response } = block['functionResponse'];
    return [{ kind: 'result', name: textIn(name), text: textIn(response) }];
  }
  if (type === 'tool_result')
    return [{ kind: 'result', name: textIn(block['tool_use_id']), text: plain(block['content']) }];
  if (type === 'function_call_output')
    return [{ kind: 'result', name: textIn(block['call_id']), text: plain(block['output']) }];
  if (type === 'thinking' || type === 'reasoning')
    return text(textIn(block['thinking']) || plain(block['summary']) || plain(block['content']), 'thought');
  if (type === 'refusal') return text(textIn(block['refusal']), 'refusal');
  if (typeof block['text'] === 'string')
    return text(block['text'], block['thought'] === true ? 'thought' : 'text');
  return [{ kind: 'other', text: textIn(block) }];
}

/** The words of a content alone. */
function plain(content: unknown): string {
  return partsOf(content)
    .map((part) => ('text' in part ? part.text : ''))
    .join('\n');
}

/** A message of chat completions, messages or an item of responses. */
function turnOf(message: unknown): Turn[] {
  if (!isObject(message)) return [{ role: 'user', parts: text(textIn(message)) }];
  if (message['role'] === undefined && message['parts'] === undefined) {
    const type = textIn(message['type']);
    const role = type.endsWith('_output') ? 'tool' : 'assistant';
    return [{ role, parts: blockParts(message) }];
  }
  const role = textIn(message['role']) || 'user';
  if (role === 'tool' || role === 'function')
    return [
      {
        role: 'tool',
        parts: [
          {
            kind: 'result',
            name: textIn(message['name'] ?? message['tool_call_id']),
            text: plain(message['content']),
          },
        ],
      },
    ];
  const calls = listOf(message['tool_calls'] ?? message['function_call']).flatMap((call): Part[] => {
    if (!isObject(call)) return [];
    const own = isObject(call['function']) ? call['function'] : call;
    return [{ kind: 'call', name: textIn(own['name']), text: argumentsOf(own['arguments']) }];
  });
  return [
    {
      role,
      parts: [
        ...text(textIn(message['reasoning_content'] ?? message['reasoning']), 'thought'),
        ...partsOf(message['content'] ?? message['parts']),
        ...text(textIn(message['refusal']), 'refusal'),
        ...calls,
      ],
    },
  ];
}

/** The messages of a request of any wire that has some; empty for any other body. */
export function requestTurns(body: unknown): readonly Turn[] {
  if (!isObject(body)) return [];
  const system =
    body['system'] ??
    body['instructions'] ??
    (isObject(body['systemInstruction']) ? body['systemInstruction']['parts'] : undefined);
  const before: Turn[] =
    system === undefined || system === null ? [] : [{ role: 'system', parts: partsOf(system) }];
  const messages = body['messages'] ?? body['contents'] ?? body['input'];
  if (messages !== undefined) return [...before, ...listOf(messages).flatMap(turnOf)];
  if (body['prompt'] !== undefined)
    return listOf(body['prompt']).map((one) => ({ role: 'user', parts: text(textIn(one)) }));
  return before;
}

/** The messages of an answer, whole or streamed. */
export function answerTurns(body: unknown, format: string): readonly Turn[] {
  if (typeof body === 'string') {
    if (format !== 'sse' && !/^\s*(?:data|event|id|retry|):/.test(body)) return [];
    return streamedTurns(eventsOf(body).flatMap(({ data }) => parsed(data)));
  }
  if (Array.isArray(body)) return streamedTurns(body.filter(isObject));
  return isObject(body) ? wholeTurns(body) : [];
}

function parsed(data: string): Json[] {
  try {
    const value: unknown = JSON.parse(data);
    return isObject(value) ? [value] : [];
  } catch {
    return [];
  }
}

function wholeTurns(body: Json): readonly Turn[] {
  if (Array.isArray(body['choices']))
    return body['choices'].flatMap((choice) => {
      if (!isObject(choice)) return [];
      return choice['message'] === undefined
        ? [{ role: 'assistant', parts: text(textIn(choice['text'])) }]
        : turnOf(choice['message']);
    });
  if (Array.isArray(body['candidates']))
    return body['candidates'].flatMap((one) =>
      isObject(one) && isObject(one['content']) ? turnOf({ ...one['content'], role: 'assistant' }) : [],
    );
  if (Array.isArray(body['output'])) return body['output'].flatMap(turnOf);
  if (body['type'] === 'message' && Array.isArray(body['content']))
    return turnOf({ ...body, role: 'assistant' });
  return [];
}

/** What a stream has told so far of one answer. */
class Gathered {
  readonly #texts = new Map<string, { kind: 'text' | 'thought' | 'refusal'; text: string }>();
  readonly #calls = new Map<string, { name: string; text: string }>();

  say(key: string, kind: 'text' | 'thought' | 'refusal', more: unknown): void {
    if (typeof more !== 'string' || more === '') return;
    const own = this.#texts.get(`${kind} ${key}`);
    if (own === undefined) this.#texts.set(`${kind} ${key}`, { kind, text: more });
    else own.text += more;
  }

  call(key: string, name: unknown, more: unknown): void {
    const own = this.#calls.get(key) ?? { name: '', text: '' };
    if (typeof name === 'string') own.name = name;
    if (typeof more === 'string') own.text += more;
    this.#calls.set(key, own);
  }

  get turns(): readonly Turn[] {
    const calls = [...this.#calls.values()].map(({ name, text: sent }): Part => ({
      kind: 'call',
      name,
      text: argumentsOf(sent || '{}'),
    }));
    const parts = [...this.#texts.values(), ...calls];
    return parts.length === 0 ? [] : [{ role: 'assistant', parts }];
  }
}

function streamedTurns(events: readonly Json[]): readonly Turn[] {
  const done = events.find(({ type }) => type === 'response.completed' || type === 'response.incomplete');
  if (done !== undefined && isObject(done['response'])) {
    const turns = wholeTurns(done['response']);
    if (turns.length > 0) return turns;
  }
  const gathered = new Gathered();
  for (const event of events) gather(gathered, event);
  return gathered.turns;
}

function gather(gathered: Gathered, event: Json): void {
  const { type } = event;
  const key = textIn(event['index'] ?? event['output_index']);
  for (const choice of listOf(event['choices'])) {
    if (!isObject(choice)) continue;
    const own = textIn(choice['index']);
    gathered.say(own, 'text', choice['text']);
    const { delta } = choice;
    if (!isObject(delta)) continue;
    gathered.say(own, 'thought', delta['reasoning_content'] ?? delta['reasoning']);
    gathered.say(own, 'text', delta['content']);
    gathered.say(own, 'refusal', delta['refusal']);
    for (const call of listOf(delta['tool_calls'])) {
      if (!isObject(call) || !isObject(call['function'])) continue;
      gathered.call(
        `${own} ${textIn(call['index'])}`,
        call['function']['name'],
        call['function']['arguments'],
      );
    }
  }
  if (type === 'content_block_start' && isObject(event['content_block'])) {
    const block = event['content_block'];
    if (block['type'] === 'tool_use') gathered.call(key, block['name'], '');
  }
  if (type === 'content_block_delta' && isObject(event['delta'])) {
    gathered.say(key, 'text', event['delta']['text']);
    gathered.say(key, 'thought', event['delta']['thinking']);
    if (event['delta']['type'] === 'input_json_delta')
      gathered.call(key, undefined, event['delta']['partial_json']);
  }
  if (type === 'response.output_text.delta') gathered.say(key, 'text', event['delta']);
  if (type === 'response.function_call_arguments.delta') gathered.call(key, undefined, event['delta']);
  if (
    type === 'response.output_item.added' &&
    isObject(event['item']) &&
    event['item']['type'] === 'function_call'
  )
    gathered.call(key, event['item']['name'], '');
  for (const candidate of listOf(event['candidates'])) {
    if (!isObject(candidate) || !isObject(candidate['content'])) continue;
    for (const [index, part] of partsOf(candidate['content']['parts']).entries()) {
      if (part.kind === 'text' || part.kind === 'thought') gathered.say('0', part.kind, part.text);
      else if (part.kind === 'call') gathered.call(`${index} ${part.name}`, part.name, part.text);
    }
  }
}
