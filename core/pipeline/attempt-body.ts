import type { AttemptBody, JsonPath, JsonValue, Replacement } from './context.ts';
import { removeAt, replaceAllAt, setAt } from './json-splice.ts';
import { withValueAt, type LargeDocument, type MayBeLarge } from './large-document.ts';
import { parseJson } from '../base/json.ts';
import type { LazyBody } from './request-body.ts';
import { requireJson } from './require-json.ts';

/** What an attempt's body begins as. */
export type BaseBody = Pick<LazyBody, 'loaded' | 'text' | 'bytes' | 'json' | 'outgoing' | 'hold'> &
  MayBeLarge;

/** The body behind `context.attempt.body`: that of the request until this attempt changes it, then its own. */
export class ChangedBody implements AttemptBody, MayBeLarge {
  private readonly base: BaseBody;
  private ownText: string | undefined;
  private ownBytes: Buffer | undefined;
  private ownJson: JsonValue | undefined;
  private isParsed = false;
  private ownLarge: LargeDocument | undefined;

  constructor(base: BaseBody) {
    this.base = base;
  }

  get loaded(): boolean {
    return this.base.loaded;
  }

  get changed(): boolean {
    return this.ownText !== undefined || this.ownLarge !== undefined;
  }

  /** The document, where it is large and has not been taken over from elsewhere: changing it writes no more than it has to. */
  get large(): LargeDocument | undefined {
    return this.ownLarge ?? (this.ownText === undefined ? this.base.large : undefined);
  }

  get text(): string {
    if (this.ownLarge !== undefined) return this.ownLarge.text;
    return this.ownText ?? this.base.text;
  }

  get bytes(): Buffer {
    if (this.ownLarge !== undefined) return this.ownLarge.bytes;
    if (this.ownText === undefined) return this.base.bytes;
    this.ownBytes ??= Buffer.from(this.ownText, 'utf8');
    return this.ownBytes;
  }

  get json(): JsonValue | undefined {
    if (this.ownLarge !== undefined) return this.ownLarge.json;
    if (this.ownText === undefined) return this.base.json;
    if (!this.isParsed) {
      this.isParsed = true;
      this.ownJson = parseJson(this.ownText);
    }
    return this.ownJson;
  }

  get outgoing(): Buffer {
    return this.changed ? this.bytes : this.base.outgoing;
  }

  set(path: JsonPath, value: JsonValue): void {
    if (this.large !== undefined) return this.becomeLarge(this.large.set(path, value));
    const json = requireJson(this.json);
    this.become(setAt(this.text, path, value), withValueAt(json, path, value));
  }

  replaceAll(replacements: readonly Replacement[]): void {
    if (replacements.length === 0) return;
    if (this.large !== undefined) return this.becomeLarge(this.large.replaceAll(replacements));
    const json = requireJson(this.json);
    const text = replaceAllAt(this.text, replacements);
    // What was put in may be long: reading it again only to know what is known would be slow.
    this.become(
      text,
      replacements.reduce((tree, { path, value }) => withValueAt(tree, path, value), json),
    );
  }

  remove(path: JsonPath): void {
    if (this.large !== undefined) return this.becomeLarge(this.large.remove(path));
    requireJson(this.json);
    const text = removeAt(this.text, path);
    if (text === this.text) return;
    this.become(text, undefined);
    this.isParsed = false;
  }

  hold(bytes: number): void {
    this.base.hold(bytes);
  }

  /** Takes over a change of the large document. */
  becomeLarge(document: LargeDocument): void {
    if (document !== this.large) this.ownLarge = document;
  }

  /**
   * Takes over a text that was changed elsewhere, with what it says, so that it need not be read again. `json` may share
   * parts with what it was before, and must not have changed them.
   */
  become(text: string, json: JsonValue | undefined): void {
    this.ownLarge = undefined;
    this.ownText = text;
    this.ownBytes = undefined;
    this.ownJson = json;
    this.isParsed = true;
  }
}
