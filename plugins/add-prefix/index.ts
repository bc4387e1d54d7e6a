import { isJsonObject } from '../../core/base/json.ts';
import {
  type CheckSubject,
  defineCheck,
  definePlugin,
  judged,
  passed,
  type RequestContext,
  skipped,
  type Static,
  Type,
} from '../../core/pipeline/plugin.ts';
import type { EndpointId } from '../../core/dialects/endpoint.ts';
import type { JsonPath, JsonValue } from '../../core/pipeline/context.ts';

type Filled = Required<AddPrefixOptions>;
/** The JSON type of a text part on the wire that is spoken. */
type TextType = 'text' | 'input_text' | 'output_text';

const edited: ReadonlySet<EndpointId> = new Set(['chat.completions', 'messages', 'responses', 'completions']);

/** Target of the prefix: the body of a request, or the value that a check judges. */
interface Prefixed {
  readonly json: JsonValue | undefined;
  readonly endpoint: { readonly id: EndpointId };
  readonly body: Pick<RequestContext['body'], 'set'>;
}

/** Adds the prefix to the texts of one request, through the narrowest `body.set` that does it. */
class Prefixer {
  private readonly options: Filled;

  constructor(options: Filled) {
    this.options = options;
  }

  /** True for the endpoints whose texts can be edited. */
  knows(endpoint: EndpointId): boolean {
    return edited.has(endpoint);
  }

  /** Edits the body of an endpoint that holds a conversation or a prompt; leaves every other one alone. */
  apply(context: Prefixed): void {
    const { json } = context;
    if (!isJsonObject(json)) return;
    const isUser = this.options.applyToRole === 'user';
    const isSystem = this.options.applyToRole === 'system';
    switch (context.endpoint.id) {
      case 'chat.completions':
        return this.messages(context, 'messages', json['messages'], 'text');
      case 'messages':
        if (isSystem) return this.topLevel(context, 'system', json['system']);
        return this.messages(context, 'messages', json['messages'], 'text');
      case 'responses':
        if (isSystem) return this.topLevel(context, 'instructions', json['instructions']);
        if (typeof json['input'] !== 'string') {
          return this.messages(context, 'input', json['input'], isUser ? 'input_text' : 'output_text');
        }
        return isUser ? this.text(context, ['input'], json['input']) : undefined;
      case 'completions':
        return isUser ? this.prompts(context, json['prompt']) : undefined;
      default:
        return undefined;
    }
  }

  private prompts(context: Prefixed, prompt: JsonValue | undefined): void {
    if (typeof prompt === 'string') return this.text(context, ['prompt'], prompt);
    if (!Array.isArray(prompt)) return;
    // A list is several prompts; those given as tokens have no text to put anything in front of. It is set as a
    // whole, because a change for each of its items would take quadratic time.
    if (!prompt.some((one) => this.accepts(one))) return;
    context.body.set(
      ['prompt'],
      prompt.map((one) => (this.accepts(one) ? this.options.prefix + one : one)),
    );
  }

  private accepts(text: JsonValue): text is string {
    return typeof text === 'string' && (!this.options.onlyIfEmpty || text.trim() === '');
  }

  /** A system text that stands beside the messages: a string, or a list of text parts. */
  private topLevel(context: Prefixed, name: string, value: JsonValue | undefined): void {
    this.content(context, [name], value, 'text');
  }

  private messages(context: Prefixed, name: string, list: JsonValue | undefined, type: TextType): void {
    if (!Array.isArray(list)) return;
    const { prefix, applyToRole: role, addToExisting, onlyIfEmpty } = this.options;
    const index = list.findLastIndex((message) => hasRole(message, role));
    const message = list[index];
    if (!isJsonObject(message)) {
      const added = { role, content: prefix };
      if (role === 'system') context.body.set([name], [added, ...list]);
      else if (!addToExisting) context.body.set([name, list.length], added);
    } else if (addToExisting) {
      this.content(context, [name, index, 'content'], message['content'], type);
    } else if (!onlyIfEmpty || textOf(message['content']).trim() === '') {
      // With the role as the caller wrote it: `developer` stays `developer`.
      const added = { role: message['role'] ?? role, content: prefix };
      context.body.set([name], [...list.slice(0, index), added, ...list.slice(index)]);
    }
  }

  private content(context: Prefixed, path: JsonPath, content: JsonValue | undefined, type: TextType): void {
    if (!Array.isArray(content)) {
      if (typeof content === 'string' || content === null || content === undefined) {
        this.text(context, path, content ?? '');
      }
      return;
    }
    if (this.options.onlyIfEmpty && textOf(content).trim() !== '') return;
    const index = content.findIndex((part) => partText(part) !== undefined);
    if (index >= 0) {
      const text = partText(content[index]) as string;
      context.body.set([...path, index, 'text'], this.options.prefix + text);
    } else {
      // Behind the other parts: some wires want tool results first, and none minds text after an image.
      context.body.set([...path, content.length], { type, text: this.options.prefix });
    }
  }

  private text(context: Prefixed, path: JsonPath, text: string): void {
    if (this.accepts(text)) context.body.set(path, this.options.prefix + text);
  }
}

function hasRole(message: JsonValue, role: Filled['applyToRole']): boolean {
  if (!isJsonObject(message)) return false;
  if (role === 'system') return message['role'] === 'system' || message['role'] === 'developer';
  return message['role'] === role && !(role === 'user' && onlyToolResults(message['content']));
}

function onlyToolResults(content: JsonValue | undefined): boolean {
  if (!Array.isArray(content) || content.length === 0) return false;
  return content.every((part) => isJsonObject(part) && part['type'] === 'tool_result');
}

function textOf(content: JsonValue | undefined): string {
  if (typeof content === 'string') return content;
  return Array.isArray(content) ? content.map((part) => partText(part) ?? '').join('') : '';
}

/** The text of a text part; every wire keeps it in `text`. */
function partText(part: JsonValue | undefined): string | undefined {
  if (!isJsonObject(part)) return undefined;
  const { type, text } = part;
  if (type !== 'text' && type !== 'input_text' && type !== 'output_text') return undefined;
  return typeof text === 'string' ? text : undefined;
}

/** Options of `add-prefix`, spelled as in existing guardrail configurations. */
const AddPrefixSchema = Type.Object(
  {
    prefix: Type.String({
      minLength: 1,
      maxLength: 100_000,
      description:
        'Text to prepend. Include the space or line break that separates it from the original text.',
    }),
    applyToRole: Type.Optional(
      Type.Union([Type.Literal('user'), Type.Literal('system'), Type.Literal('assistant')], {
        default: 'user',
        description:
          'Role of the message; the plugin edits the last message of this role. `system` includes `developer` messages, `system` of Messages and `instructions` of Responses; a missing system text is added at the front. User messages that only contain tool results do not count. Prompts of Completions are user text.',
      }),
    ),
    addToExisting: Type.Optional(
      Type.Boolean({
        default: true,
        description:
          'Prepend the prefix to the message. If false, a separate message with the prefix is added before it, or at the end if there is none. Plain texts (`prompt`, a string `input`, `system`, `instructions`) are edited either way.',
      }),
    ),
    onlyIfEmpty: Type.Optional(
      Type.Boolean({
        default: false,
        description: 'Only if the text is empty; a missing message counts as empty.',
      }),
    ),
  },
  { additionalProperties: false },
);

/** The options as written. */
export type AddPrefixOptions = Static<typeof AddPrefixSchema>;

/** The same for guardrails of configs. */
const addPrefixCheck = defineCheck({
  id: 'default.addPrefix',
  aliases: ['add-prefix'],
  description:
    'Prepends a text to the last message of a role, on chat completions, completions, responses and messages. Always passes.',
  phases: ['input'],
  changes: true,
  schema: AddPrefixSchema,
  create(options) {
    const prefixer = prefixerOf(options);
    return (subject: CheckSubject) => {
      const { json, endpoint: id } = subject;
      if (!prefixer.knows(id) || !isJsonObject(json))
        return skipped('The request has no conversation to put a text into.');
      prefixer.apply({ json, endpoint: { id }, body: { set: (path, value) => subject.set(path, value) } });
      return passed();
    };
  },
});

function prefixerOf(options: AddPrefixOptions): Prefixer {
  const { prefix, applyToRole = 'user', addToExisting = true, onlyIfEmpty = false } = options;
  return new Prefixer({ prefix, applyToRole, addToExisting, onlyIfEmpty });
}

/** Puts a text in front of what the caller sends. */
export default definePlugin({
  name: 'add-prefix',
  description:
    'Prepends a text to the last message of a role, on chat completions, completions, responses and messages. The rest of the body stays unchanged.',
  schema: AddPrefixSchema,
  // No `changes`: that would hold the uploads of other endpoints in memory. Bodies that can be edited are loaded below.
  offers: [addPrefixCheck],
  capabilities: { guardrail: true },
  create(options) {
    const prefixer = prefixerOf(options);
    const apply = (context: RequestContext): void => {
      const before = context.body.changed;
      prefixer.apply(context);
      // After a change by an earlier plugin, `changed` does not show whether this one changed the body, too.
      if (!before) context.set(judged, context.body.changed ? 'changed' : 'skipped');
    };
    return {
      request(context) {
        const { body } = context;
        if (!body.present || !prefixer.knows(context.endpoint.id)) {
          context.set(judged, 'skipped');
          return undefined;
        }
        if (body.loaded) return apply(context);
        return body.load().then(() => apply(context));
      },
    };
  },
});
