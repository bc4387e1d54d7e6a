import { keyAt, skipSpace, skipString, skipValue } from '../../pipeline/json-splice.ts';
import { dropsBelow, isDropped, type Drops } from './drop-tree.ts';

/** What is changed in the text of a JSON object. */
export interface TextEdits {
  /** JSON texts of the new values of top-level members that are there, each copy of a repeated one included. */
  readonly values: ReadonlyMap<string, string> | undefined;
  /** Top-level members that are not there, as JSON texts: `"name":value`. */
  readonly added: readonly string[];
  readonly drops: Drops | undefined;
}

/** Makes all changes in one walk over the text and leaves every other character as it is. `text` must be a JSON object. */
export function editedText(text: string, edits: TextEdits): string {
  const pen = new Pen(text);
  container(pen, skipSpace(text, 0), edits.drops, edits);
  return pen.finish();
}

/** Writes down what stays, from the front to the back. */
class Pen {
  readonly text: string;
  private written = '';
  private done = 0;

  constructor(text: string) {
    this.text = text;
  }

  /** Puts something in the place of what stands from `from` to `to`, which lies behind all places before. */
  replace(from: number, to: number, by: string): void {
    this.written += this.text.slice(this.done, from) + by;
    this.done = to;
  }

  finish(): string {
    return this.written + this.text.slice(this.done);
  }
}

/** Edits the object or list that begins at `at`; the offset behind it. Recurses as deep as the paths to drop are long. */
function container(pen: Pen, at: number, drops: Drops | undefined, edits?: TextEdits): number {
  const { text } = pen;
  const isList = text[at] === '[';
  /** Where the last member that stays ends, and the last of all. */
  let keptEnd = at + 1;
  let end = at + 1;
  let kept = 0;
  /** Where a run of members that go begins. */
  let cutFrom = -1;
  let start = skipSpace(text, at + 1);
  for (let index = 0; start < text.length && text[start] !== '}' && text[start] !== ']'; index++) {
    const keyEnd = isList ? start : skipString(text, start);
    const name = isList ? index : keyAt(text, start, keyEnd);
    const valueAt = isList ? start : skipSpace(text, skipSpace(text, keyEnd) + 1);
    const below = dropsBelow(drops, name);
    if (isDropped(below)) {
      if (cutFrom < 0) cutFrom = start;
      end = skipValue(text, valueAt);
    } else {
      if (cutFrom >= 0) pen.replace(cutFrom, start, '');
      cutFrom = -1;
      end = member(pen, valueAt, below, typeof name === 'string' ? edits?.values?.get(name) : undefined);
      keptEnd = end;
      kept++;
    }
    start = skipSpace(text, end);
    if (text[start] === ',') start = skipSpace(text, start + 1);
  }
  const added = edits?.added ?? [];
  if (added.length > 0) pen.replace(keptEnd, keptEnd, (kept > 0 ? ',' : '') + added.join(','));
  if (cutFrom >= 0) pen.replace(keptEnd, end, '');
  return start + 1;
}

/** A value that stays, as a whole or in part; the offset behind it. */
function member(pen: Pen, at: number, drops: Drops | undefined, value: string | undefined): number {
  const { text } = pen;
  if (value === undefined && drops !== undefined && (text[at] === '{' || text[at] === '['))
    return container(pen, at, drops);
  const end = skipValue(text, at);
  if (value !== undefined) pen.replace(at, end, value);
  return end;
}
