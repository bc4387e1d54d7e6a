import type { EndpointId } from '../../core/dialects/endpoint.ts';
import type { ConversationText } from '../../core/dialects/dialect.ts';
import type { AttemptContext, JsonObject, JsonValue } from '../../core/pipeline/context.ts';
import type { VectorPartition } from '../../core/ports/vector-index.ts';
import { questionKey } from './cache-key.ts';

/** Endpoints whose requests are conversations. */
const conversing: ReadonlySet<EndpointId> = new Set([
  'chat.completions',
  'completions',
  'responses',
  'messages',
  'generate-content',
]);

/** More turns than these are rarely asked again in other words, and the last of them would hardly count. */
const maxMessages = 4;
/** Texts that are embedded are shorter than 8,191 tokens; a token is counted as 4 bytes. */
const maxBytes = 8190 * 4;

/** Where the turns of a conversation stand in a body. */
const turnMembers: ReadonlySet<string> = new Set(['messages', 'input', 'contents']);
const instructing: ReadonlySet<string> = new Set(['system', 'developer']);

/** What of a request is compared by similarity, and what must be equal. */
export interface Question {
  /** What user and assistant said. */
  readonly text: string;
  /** Of all questions whose answers may be given to each other when their texts are similar. */
  readonly partition: VectorPartition;
}

/** How questions are told from what surrounds them. */
export interface QuestionRules {
  /** Texts of `system` and `developer` may differ. */
  readonly ignoreSystemPrompt: boolean;
  /** Names what makes the vectors: those of different models cannot be compared. */
  readonly space: string;
}

/**
 * The question of a request. Undefined when similar ones are not looked for: no conversation, nothing that a user said, more
 * than four messages (instructions not counted), or 8,191 tokens and more.
 */
export function questionOf(context: AttemptContext, rules: QuestionRules): Question | undefined {
  const { json } = context.attempt.body;
  if (!conversing.has(context.endpoint.id) || !isObject(json)) return undefined;
  const { texts } = context.dialect.decodeConversation(context.endpoint.id, json);
  const said = texts.filter(({ role }) => role === 'user' || role === 'assistant');
  if (!said.some(({ role, text }) => role === 'user' && text.trim() !== '')) return undefined;
  if (messageCount(json, said) > maxMessages) return undefined;
  const text =
    said.length === 1
      ? (said[0] as ConversationText).text
      : said.map((one) => `${one.role}: ${one.text}`).join('\n\n');
  if (Buffer.byteLength(text, 'utf8') > maxBytes) return undefined;
  const rest = withoutTexts(json, said);
  if (rules.ignoreSystemPrompt)
    leaveOut(
      rest,
      texts.filter(({ role }) => instructing.has(role)),
    );
  const digest = questionKey(context, rest, rules.space);
  if (digest === undefined) return undefined;
  return { text, partition: { organisationId: context.facts.organisationId, digest } };
}

function messageCount(json: JsonObject, said: readonly ConversationText[]): number {
  for (const name of turnMembers) {
    const turns = json[name];
    if (!Array.isArray(turns)) continue;
    return turns.filter((turn) => !isInstruction(turn)).length;
  }
  return said.length;
}

/** A list or an object, by index or name. */
type Node = Record<string | number, JsonValue>;

/** A copy of the document with `true`, which no wire has there, in place of the texts. What holds none is shared with it. */
function withoutTexts(json: JsonObject, texts: readonly ConversationText[]): JsonObject {
  const own = new Set<unknown>();
  const root = copied(json, own);
  for (const { path } of texts) {
    let node: Node = root;
    for (let i = 0; i < path.length - 1; i++) {
      const step = path[i] as string | number;
      const child = node[step] as JsonObject | JsonValue[];
      const copy = own.has(child) ? child : copied(child, own);
      node[step] = copy;
      node = copy as Node;
    }
    node[path.at(-1) as string | number] = true;
  }
  return root;
}

function copied<T extends JsonObject | JsonValue[]>(node: T, own: Set<unknown>): T {
  // Without a prototype: a member called `__proto__` is one like any other.
  const copy = (
    Array.isArray(node) ? Array.from(node) : Object.assign(Object.create(null) as object, node)
  ) as T;
  own.add(copy);
  return copy;
}

/** Takes the messages or members that hold these texts out of a document of our own. */
function leaveOut(json: JsonObject, texts: readonly ConversationText[]): void {
  const turns = new Map<string, Set<number>>();
  for (const { path } of texts) {
    const [name, index] = path as [string, string | number | undefined];
    if (turnMembers.has(name) && typeof index === 'number') {
      const found = turns.get(name) ?? new Set();
      turns.set(name, found.add(index));
    } else delete json[name];
  }
  for (const [name, left] of turns) {
    json[name] = (json[name] as JsonValue[]).filter((_, index) => !left.has(index));
  }
}

function isInstruction(turn: JsonValue): boolean {
  const role = isObject(turn) ? turn['role'] : undefined;
  return typeof role === 'string' && instructing.has(role);
}

function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
