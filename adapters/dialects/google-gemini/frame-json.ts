import { readSseFrame, replaceSseData, writeSseFrame } from '../../framing/sse-frame.ts';
import { SseSplitter } from '../../framing/sse.ts';
import { parseExactObject, stringifyExact } from '../exact-json.ts';
import { asBuffer, type JsonObject } from '../json-reading.ts';
import { ArraySplitter } from './array-splitter.ts';
import { streamErrorFrame } from './error-shape.ts';
import { joinCalls } from './join-calls.ts';

/** How objects stand in the bytes of a stream. A frame holds several while a call is told in pieces. */
export interface FrameFraming {
  /** The object of a frame, pieces of calls put together; undefined where it says nothing, null where it cannot be read. */
  read(bytes: Uint8Array): JsonObject | undefined | null;
  /** A frame with this object instead of the one it had. */
  replace(bytes: Uint8Array, json: JsonObject): Buffer;
  /** A frame of its own; `begun`: others have been sent before it. */
  write(json: JsonObject, begun: boolean): Buffer;
  /** The frame as it stands behind others, or as the first. */
  place(bytes: Uint8Array, begun: boolean): Uint8Array;
}

/** Server-sent events (`alt=sse`). */
export const eventFraming: FrameFraming = {
  read(bytes) {
    const all = asBuffer(bytes);
    if (isOneEvent(all)) return asOne(readSseFrame(all).data);
    const texts: (string | undefined)[] = [];
    const splitter = new SseSplitter((frame) => texts.push(readSseFrame(frame).data));
    splitter.push(all);
    splitter.finish();
    return joined(texts.filter((text) => text !== undefined && text.trim() !== ''));
  },
  replace(bytes, json) {
    if (json.error !== undefined) return streamErrorFrame(stringifyExact(json));
    const all = asBuffer(bytes);
    return isOneEvent(all) ? replaceSseData(all, stringifyExact(json)) : this.write(json, true);
  },
  write: (json) => writeSseFrame(stringifyExact(json)),
  place: (bytes) => bytes,
};

/** Elements of one JSON array. */
export const arrayFraming: FrameFraming = {
  read(bytes) {
    const all = asBuffer(bytes);
    const one = parseExactObject(all.subarray(Math.max(0, all.indexOf('{'))).toString('utf8'));
    if (one !== undefined) return one;
    const texts: string[] = [];
    let isWhole = true;
    const splitter = new ArraySplitter((element, kind) => {
      if (kind === 'element') texts.push(element.subarray(element.indexOf('{')).toString('utf8'));
      else if (kind === 'unread') isWhole = false;
    });
    splitter.push(all);
    splitter.finish();
    return isWhole ? joined(texts) : null;
  },
  replace(bytes, json) {
    const before = asBuffer(bytes);
    return Buffer.concat([before.subarray(0, before.indexOf('{')), Buffer.from(stringifyExact(json))]);
  },
  write: (json, begun) => Buffer.from(`${begun ? ',\n' : '['}${stringifyExact(json)}`),
  place(bytes, begun) {
    const all = asBuffer(bytes);
    const at = all.indexOf('{');
    const opening = all.subarray(0, at === -1 ? all.length : at).indexOf('[');
    if (begun === (opening === -1)) return bytes;
    if (at === -1) return begun ? all.subarray(opening + 1) : Buffer.concat([Buffer.from('['), all]);
    return Buffer.concat([Buffer.from(begun ? ',\n' : '['), all.subarray(at)]);
  },
};

/** The frame has one line of data. */
function isOneEvent(frame: Buffer): boolean {
  return frame.lastIndexOf('\ndata:') + 1 === Math.max(0, frame.indexOf('data:'));
}

function asOne(text: string | undefined): JsonObject | undefined | null {
  return text === undefined || text.trim() === '' ? undefined : (parseExactObject(text) ?? null);
}

function joined(texts: readonly (string | undefined)[]): JsonObject | undefined | null {
  const objects: JsonObject[] = [];
  for (const text of texts) {
    const json = parseExactObject(text ?? '');
    if (json === undefined) return null;
    objects.push(json);
  }
  const [first] = objects;
  return objects.length < 2 ? first : joinCalls(objects);
}
