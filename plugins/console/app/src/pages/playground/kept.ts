import { isObject } from '@/lib/json';
import { type Column, emptyRun, firstColumn, type Run } from '@/pages/playground/columns';
import { firstMessages, type Message } from '@/pages/playground/messages';
import { playground as texts } from '@/texts/playground';

export const mostColumns = 4;

/** The playground as it is kept for when its page is opened again. */
export interface Kept {
  readonly messages: readonly Message[];
  /** JSON, as it was typed. */
  readonly tools: string;
  readonly sides: readonly { readonly column: Column; readonly run?: Run | undefined }[];
  /** So many messages before these were too long to be kept. */
  readonly left: number;
  /** The entry of the browser's history where it stood. */
  readonly entry: string;
}

/** Another shape is another version, which this one does not read. */
const version = 1;
/** Of all that is kept. Browsers keep five million for an origin. */
const mostCharacters = 1_000_000;
/** Of an answer, in turn, as long as all together is too long. */
const answerLengths = [100_000, 10_000, 0];

/** As a text of at most a million characters: without images, then turns, then ends of answers, the oldest first. */
export function writeKept(kept: Kept): string {
  const sides = kept.sides.map(({ column, run }) => ({ column, ...(run && { run: endedRun(run) }) }));
  let messages = withoutImages(kept.messages, mostCharacters - sizeOf({ ...kept, sides, messages: [] }));
  const text = (): string => {
    const left = kept.left + kept.messages.length - messages.length;
    return JSON.stringify({ ...kept, version, sides, messages, left });
  };
  messages = withoutTurns(messages, text().length - mostCharacters);
  let written = text();
  for (const most of answerLengths) {
    if (written.length <= mostCharacters) return written;
    for (const side of sides) if (side.run) side.run = shortened(side.run, most);
    written = text();
  }
  if (written.length <= mostCharacters) return written;
  const nothing = { messages: firstMessages, tools: '', sides: [{ column: firstColumn }] };
  return JSON.stringify({ ...kept, ...nothing, version, left: kept.left + kept.messages.length });
}

/** What `writeKept` has written; undefined for anything else, such as a text of another version. */
export function readKept(text: string | undefined): Kept | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text ?? '');
  } catch {
    return undefined;
  }
  if (!isObject(value) || value['version'] !== version) return undefined;
  const { messages, tools, sides, left, entry } = value;
  if (!isListOf(messages, isMessage) || !isListOf(sides, isSide)) return undefined;
  if (messages.length === 0 || sides.length === 0 || sides.length > mostColumns) return undefined;
  if (typeof tools !== 'string' || typeof left !== 'number' || typeof entry !== 'string') return undefined;
  return { messages, tools, sides, left, entry };
}

/** The entry of the browser's history that has this state: the same after a reload, and for who comes back to it. */
export function historyEntry(state: unknown): string {
  const key = isObject(state) ? state['__TSR_key'] : undefined;
  return typeof key === 'string' ? key : '';
}

/** A run of which nothing more comes: one that was going on is cut off where it is. */
export function endedRun(run: Run): Run {
  return run.state === 'waiting' || run.state === 'running' ? { ...run, state: 'cut' } : run;
}

function sizeOf(value: unknown): number {
  return JSON.stringify(value).length;
}

/** The messages without the images of the oldest ones, until they have no more characters than these. */
function withoutImages(messages: readonly Message[], most: number): readonly Message[] {
  const weights = messages.map(({ images = [] }) => images.reduce((sum, url) => sum + url.length + 3, 0));
  let size = weights.reduce((sum, one) => sum + one, 0);
  size += sizeOf(messages.map((message) => ({ ...message, images: [] })));
  return messages.map((message, index): Message => {
    const { images = [], imagesLeft = 0, ...words } = message;
    if (size <= most || images.length === 0) return message;
    size -= weights[index] ?? 0;
    return { ...words, imagesLeft: imagesLeft + images.length };
  });
}

/**
 * The messages without turns of so many characters or more: each from the first message after those of the system up to
 * the next of the user. The last one stays.
 */
function withoutTurns(messages: readonly Message[], excess: number): readonly Message[] {
  let left = excess;
  let kept = messages;
  while (left > 0) {
    const from = kept.findIndex(({ role }) => role !== 'system');
    const next = kept.findIndex(({ role }, at) => at > from && role === 'user');
    if (from === -1 || next === -1) return kept;
    left -= sizeOf(kept.slice(from, next));
    kept = [...kept.slice(0, from), ...kept.slice(next)];
  }
  return kept;
}

function shortened(run: Run, most: number): Run {
  if (run.text.length <= most && sizeOf(run.calls) <= most) return run;
  return { ...run, state: 'cut', text: run.text.slice(0, most), calls: [], fault: texts.answerLeft };
}

function isListOf<T>(value: unknown, is: (one: unknown) => one is T): value is readonly T[] {
  return Array.isArray(value) && value.every(is);
}

function isText(value: unknown): value is string {
  return typeof value === 'string';
}

function isMessage(value: unknown): value is Message {
  if (!isObject(value)) return false;
  const { role, content, calls = [], call = { id: '', name: '' }, images = [], imagesLeft = 0 } = value;
  return (
    isText(role) &&
    Object.hasOwn(texts.roles, role) &&
    isText(content) &&
    isListOf(calls, isCall) &&
    isCall({ arguments: '', ...(isObject(call) ? call : {}) }) &&
    isListOf(images, isText) &&
    typeof imagesLeft === 'number'
  );
}

function isCall(value: unknown): value is Run['calls'][number] {
  return isObject(value) && isText(value['id']) && isText(value['name']) && isText(value['arguments']);
}

function isSide(value: unknown): value is Kept['sides'][number] {
  return isObject(value) && isColumn(value['column']) && (value['run'] === undefined || isRun(value['run']));
}

function isColumn(value: unknown): value is Column {
  return (
    isObject(value) &&
    Object.hasOwn(texts.kinds, String(value['kind'])) &&
    Object.entries(firstColumn).every(([name, first]) => typeof value[name] === typeof first)
  );
}

function isRun(value: unknown): value is Run {
  if (!isObject(value) || !isListOf(value['calls'], isCall)) return false;
  const { state, firstByteMs = 0, totalMs = 0, tokens = [0, 0] } = value;
  return (
    ['done', 'stopped', 'failed', 'cut'].includes(String(state)) &&
    typeof firstByteMs === 'number' &&
    typeof totalMs === 'number' &&
    Array.isArray(tokens) &&
    tokens.length === 2 &&
    tokens.every((one) => typeof one === 'number') &&
    Object.entries(emptyRun).every(
      ([name, first]) => first === undefined || typeof value[name] === typeof first,
    )
  );
}
