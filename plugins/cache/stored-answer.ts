import type { Usage } from '../../core/dialects/usage.ts';
import { isSameList, type HeaderList } from '../../core/ports/header-list.ts';

/** An answer as it is kept. */
export interface StoredAnswer {
  /** What `body` is: one JSON document, or the frames of a stream. */
  readonly form: 'json' | 'stream';
  /** Flat, without the ones that belong to one delivery. */
  readonly headers: HeaderList;
  readonly body: Buffer;
  readonly model: string;
  readonly finishReason: string;
  /** What the answer cost whoever asked first; some streams do not tell themselves. */
  readonly usage: Usage | undefined;
  /** The body tells the usage. */
  readonly tellsUsage: boolean;
  /** When it was asked for, in milliseconds since the epoch. */
  readonly askedAt: number;
  /** The same for when it was kept. */
  readonly storedAt: number;
}

/**
 * Headers that describe the answer itself. All others belong to one delivery (ids, limits, timings, cookies, the
 * connection) and would be lies in another.
 */
const keptHeaders: ReadonlySet<string> = new Set(['content-type', 'content-language', 'openai-version']);

const keptLengths: ReadonlySet<number> = new Set([...keptHeaders].map((name) => name.length));

/** The headers of a provider's answer that are kept with it. */
export function headersToKeep(headers: HeaderList): HeaderList {
  const kept: string[] = [];
  for (let i = 0; i < headers.length; i += 2) {
    const header = headers[i] as string;
    // By length first: nearly every header is told apart without lower-casing it.
    if (!keptLengths.has(header.length)) continue;
    const name = header.toLowerCase();
    if (keptHeaders.has(name)) kept.push(name, headers[i + 1] as string);
  }
  return kept;
}

/** Where answers are written that fit into it: a store keeps a copy anyway. */
const scratch = Buffer.allocUnsafeSlow(65_536);

/** A line of JSON that describes the body, and the body. The bytes are good until the next call. */
export function encodeAnswer(answer: StoredAnswer): Uint8Array {
  const { usage, askedAt, body } = answer;
  // An undefined member is none, as anywhere in JSON.
  const used = usage === undefined ? '' : `,"usage":${usageText(usage)}`;
  const line = `${beginningOf(answer)}${used},"askedAt":${askedAt}}\n`;
  // UTF-8 takes three bytes for each of JavaScript's units at the most.
  const most = 3 * line.length + body.length;
  const encoded = most <= scratch.length ? scratch : Buffer.allocUnsafe(most);
  const start = encoded.write(line, 0, 'utf8');
  encoded.set(body, start);
  return encoded.subarray(0, start + body.length);
}

/** As JSON: numbers all, which JavaScript writes as JSON has them. */
function usageText(usage: Usage): string {
  let text = '';
  for (const name in usage) text += `${text && ','}"${name}":${usage[name as keyof Usage]}`;
  return `{${text}}`;
}

/** What an answer has in common with many others, and how the line that describes it begins. */
interface Beginning extends Pick<StoredAnswer, 'form' | 'headers' | 'model' | 'finishReason' | 'tellsUsage'> {
  readonly text: string;
}

let last: Beginning | undefined;

/** Answers that come one after the other mostly begin alike: comparing costs less than making JSON. */
function beginningOf({ form, headers, model, finishReason, tellsUsage }: StoredAnswer): string {
  if (
    last?.form === form &&
    last.model === model &&
    last.finishReason === finishReason &&
    last.tellsUsage === tellsUsage &&
    isSameList(last.headers, headers)
  )
    return last.text;
  const text = JSON.stringify({ form, headers, model, finishReason, tellsUsage }).slice(0, -1);
  last = { form, headers, model, finishReason, tellsUsage, text };
  return text;
}

/** What has been decoded, by the bytes: a store in memory gives out the same ones at every hit. */
const decoded = new WeakMap<Uint8Array, StoredAnswer>();

/** The inverse. Undefined for bytes that nobody here wrote. */
export function decodeAnswer(bytes: Uint8Array, storedAt: number): StoredAnswer | undefined {
  const known = decoded.get(bytes);
  if (known !== undefined) return known;
  const answer = decode(bytes, storedAt);
  if (answer !== undefined) decoded.set(bytes, answer);
  return answer;
}

function decode(bytes: Uint8Array, storedAt: number): StoredAnswer | undefined {
  const stored = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const end = stored.indexOf(0x0a);
  if (end === -1) return undefined;
  let head: unknown;
  try {
    head = JSON.parse(stored.toString('utf8', 0, end));
  } catch {
    return undefined;
  }
  if (!isHead(head)) return undefined;
  const { form, headers, model, finishReason, usage, tellsUsage, askedAt } = head;
  const body = stored.subarray(end + 1);
  return { form, headers, model, finishReason, usage, tellsUsage, askedAt, body, storedAt };
}

type Head = Omit<StoredAnswer, 'body' | 'storedAt'>;

function isHead(value: unknown): value is Head {
  if (typeof value !== 'object' || value === null) return false;
  const { form, headers, model, finishReason, usage, tellsUsage, askedAt } = value as Partial<
    Record<keyof Head, unknown>
  >;
  return (
    (form === 'json' || form === 'stream') &&
    Array.isArray(headers) &&
    headers.every((item) => typeof item === 'string') &&
    typeof model === 'string' &&
    typeof finishReason === 'string' &&
    typeof tellsUsage === 'boolean' &&
    typeof askedAt === 'number' &&
    (usage === undefined || isUsage(usage))
  );
}

function isUsage(value: unknown): value is Usage {
  return (
    typeof value === 'object' &&
    value !== null &&
    Object.values(value).every((count) => typeof count === 'number')
  );
}
