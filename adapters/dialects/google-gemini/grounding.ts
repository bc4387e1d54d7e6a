import type { Citation, JsonObject } from '../../../core/dialects/canonical/chat-part.ts';
import { asArray, asCount, asObject, asText } from '../json-reading.ts';
import { member, memberObject } from './member.ts';

/** A citation that no text was named for. */
type Source = Omit<Citation, 'start' | 'end'>;

/**
 * The citations of `groundingMetadata` for a text. A segment's indexes count UTF-8 bytes; where they do not fit the text
 * (it was streamed in several parts) the segment's words are looked for. Sources that support no segment come without
 * positions.
 */
export function decodeGrounding(grounding: JsonObject, text: string): readonly Citation[] {
  const sources = asArray(member(grounding, 'groundingChunks')).map(sourceOf);
  const cited = new Set<number>();
  const citations: Citation[] = [];
  const bytes = Buffer.from(text, 'utf8');
  for (const value of asArray(member(grounding, 'groundingSupports'))) {
    const support = asObject(value);
    if (support === undefined) continue;
    const place = placeOf(memberObject(support, 'segment') ?? {}, text, bytes);
    for (const index of asArray(member(support, 'groundingChunkIndices'))) {
      const source = typeof index === 'number' ? sources[index] : undefined;
      if (source === undefined) continue;
      cited.add(index as number);
      citations.push({ ...source, ...place });
    }
  }
  sources.forEach((source, i) => {
    if (source !== undefined && !cited.has(i)) citations.push(source);
  });
  return citations;
}

function sourceOf(value: unknown): Source | undefined {
  const chunk = asObject(value);
  if (chunk === undefined) return undefined;
  const web = memberObject(chunk, 'web') ?? memberObject(chunk, 'maps') ?? memberObject(chunk, 'image');
  const context = memberObject(chunk, 'retrievedContext');
  const named = web ?? context;
  if (named === undefined) return undefined;
  const url = asText(member(named, 'uri')) ?? asText(member(named, 'sourceUri'));
  const title = asText(named.title);
  const quote = asText(named.text);
  const source: { -readonly [name in keyof Source]: Source[name] } = {
    kind: web !== undefined || url?.startsWith('http') === true ? 'url' : 'document',
    raw: { dialect: 'google-gemini', value: chunk },
  };
  if (url !== undefined) source.url = url;
  if (title !== undefined) source.title = title;
  if (quote !== undefined) source.quote = quote;
  return source;
}

function placeOf(
  segment: JsonObject,
  text: string,
  bytes: Buffer,
): { start: number; end: number } | undefined {
  const words = asText(segment.text);
  const endByte = asCount(member(segment, 'endIndex'));
  const startByte = asCount(member(segment, 'startIndex')) ?? 0;
  if (endByte !== undefined && endByte <= bytes.length && startByte <= endByte) {
    const start = bytes.toString('utf8', 0, startByte).length;
    const end = start + bytes.toString('utf8', startByte, endByte).length;
    if (words === undefined || text.slice(start, end) === words) return { start, end };
  }
  const found = words === undefined ? -1 : text.indexOf(words);
  return found === -1 || words === undefined ? undefined : { start: found, end: found + words.length };
}

/** `groundingMetadata` that says these citations of a text; undefined when there are none with an address. */
export function encodeGrounding(citations: readonly Citation[], text: string): JsonObject | undefined {
  const groundingChunks: JsonObject[] = [];
  const groundingSupports: JsonObject[] = [];
  const known = new Map<string, number>();
  for (const citation of citations) {
    const chunk = chunkOf(citation);
    if (chunk === undefined) continue;
    const key = JSON.stringify(chunk);
    let index = known.get(key);
    if (index === undefined) {
      index = groundingChunks.push(chunk) - 1;
      known.set(key, index);
    }
    const { start, end } = citation;
    if (start === undefined || end === undefined) continue;
    const words = text.slice(start, end);
    const startIndex = Buffer.byteLength(text.slice(0, start));
    const segment = { startIndex, endIndex: startIndex + Buffer.byteLength(words), text: words };
    groundingSupports.push({ segment, groundingChunkIndices: [index] });
  }
  if (groundingChunks.length === 0) return undefined;
  return groundingSupports.length === 0 ? { groundingChunks } : { groundingChunks, groundingSupports };
}

function chunkOf({ raw, url, title, quote }: Citation): JsonObject | undefined {
  if (raw?.dialect === 'google-gemini') return raw.value;
  if (url !== undefined) return { web: title === undefined ? { uri: url } : { uri: url, title } };
  const retrievedContext: JsonObject = {};
  if (title !== undefined) retrievedContext.title = title;
  if (quote !== undefined) retrievedContext.text = quote;
  return Object.keys(retrievedContext).length === 0 ? undefined : { retrievedContext };
}
