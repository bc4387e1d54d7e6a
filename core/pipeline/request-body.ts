import type { Readable } from 'node:stream';
import { GatewayError } from '../errors/gateway-error.ts';
import { decodeWhole, type Coding, codingOf } from '../connection/content-encoding.ts';
import {
  type AttemptBody,
  type JsonPath,
  type JsonValue,
  type Replacement,
  type RequestBody,
  requireJson,
} from './context.ts';
import { beginsDocument, type JsonBounds, jsonRefusal } from './json-guard.ts';
import { removeAt, replaceAllAt, setAt } from './json-splice.ts';
import {
  largeBytes,
  type LargeDocument,
  type MayBeLarge,
  readLargeJson,
  withValueAt,
} from './large-document.ts';
import { parseJson } from '../base/json.ts';

/** Initial body of an attempt. */
type BaseBody = Pick<LazyBody, 'loaded' | 'text' | 'bytes' | 'json' | 'outgoing' | 'hold'> & MayBeLarge;

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
    // The new value may be long: parsing it again would be slow, and its content is known.
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
   * Takes over a text that was changed elsewhere, with its parsed JSON, so that it need not be parsed again. `json` may
   * share parts with the former value, and must not have changed them.
   */
  become(text: string, json: JsonValue | undefined): void {
    this.ownLarge = undefined;
    this.ownText = text;
    this.ownBytes = undefined;
    this.ownJson = json;
    this.isParsed = true;
  }
}

/** Where the bytes come from. */
interface BodyBytes {
  readonly hasBody: boolean;
  header(name: string): string | undefined;
  /** Synchronous when they are there. Throws the refusal when they are too many, too slow, or exceed the memory that is left. */
  readBody(): Buffer | Promise<Buffer>;
  streamBody(): Readable;
  /** Counts bytes that are held beside the received ones. Throws the refusal when there is no room for them. */
  hold(bytes: number, isSpare?: boolean): void;
  /** Counts the memory for parsing a body of that length, unless it is counted already. Throws the same refusal. */
  holdParsing(bodyBytes: number): void;
  /** Releases the memory of the parsed body. */
  releaseParsing(): void;
}

/** Bounds of a body that is read. */
export interface BodyBounds extends JsonBounds {
  /** Also when decoded. */
  readonly maxBytes: number;
}

const empty = Buffer.alloc(0);

/** The request body behind `context.body`. */
export class LazyBody implements RequestBody {
  private readonly source: BodyBytes;
  private readonly bounds: BodyBounds;
  private received: Buffer | undefined;
  private decoded: Buffer | undefined;
  private decodedText: string | undefined;
  private parsed: JsonValue | undefined;
  private isParsed = false;
  private isDocument = false;
  private largeDocument: LargeDocument | undefined;
  private loading: Promise<void> | undefined;
  private passesUnread = false;
  private consumed = false;
  changed = false;
  /** Runs when the bytes have arrived; set before. */
  onRead: (() => void) | undefined;

  constructor(source: BodyBytes, bounds: BodyBounds) {
    this.source = source;
    this.bounds = bounds;
  }

  get present(): boolean {
    return this.source.hasBody;
  }

  get loaded(): boolean {
    return this.decoded !== undefined;
  }

  load(): Promise<void> {
    return this.bring() ?? Promise.resolve();
  }

  /** The same without a promise when the bytes are there already. Hooks that asked before they came share one reading. */
  bring(): Promise<void> | undefined {
    if (this.loading === undefined && this.decoded === undefined) this.loading = this.begin();
    return this.loading;
  }

  /** The pipeline leaves these bytes unread: `json` is undefined instead of an error, unless a hook loads them. */
  passUnread(): void {
    this.passesUnread = true;
  }

  private begin(): Promise<void> | undefined {
    try {
      return this.read();
    } catch (error) {
      // A second caller gets the same error: nothing is left to be read.
      return Promise.reject(error instanceof Error ? error : new Error(String(error)));
    }
  }

  private read(): Promise<void> | undefined {
    if (!this.source.hasBody) {
      this.received = this.decoded = empty;
      return undefined;
    }
    const named = this.source.header('content-encoding');
    const coding = codingOf(named);
    if (coding === 'unknown') {
      throw new GatewayError(
        'body_encoding_unsupported',
        `The request body has the content-encoding "${named?.slice(0, 200)}". Send gzip, deflate, br or none.`,
      );
    }
    this.consumed = true;
    const received = this.source.readBody();
    if (Buffer.isBuffer(received)) return this.take(received, coding);
    return received.then((bytes) => this.take(bytes, coding));
  }

  private take(received: Buffer, coding: 'identity' | Coding): Promise<void> | undefined {
    this.onRead?.();
    this.received = received;
    if (coding !== 'identity') return this.readDecoded(received, coding);
    return this.understand(received);
  }

  private async readDecoded(received: Buffer, coding: Coding): Promise<void> {
    const decoded = await this.decode(received, coding);
    await this.understand(decoded);
  }

  /** Checks the bytes. A large document is parsed with it, in pieces: that many bytes at once would block all other requests. */
  private understand(bytes: Buffer): Promise<void> | undefined {
    if (bytes.length > largeBytes && beginsDocument(bytes)) {
      this.source.holdParsing(bytes.length);
      return this.readLarge(bytes);
    }
    const refusal = jsonRefusal(bytes, this.bounds);
    if (refusal !== undefined) throw refusal;
    this.decoded = bytes;
    return undefined;
  }

  private async readLarge(bytes: Buffer): Promise<void> {
    const { refused, json, document } = await readLargeJson(bytes, this.bounds);
    if (refused !== undefined) throw refused;
    this.decoded = bytes;
    this.isParsed = true;
    this.parsed = json;
    this.largeDocument = document;
  }

  get bytes(): Buffer {
    if (this.decoded === undefined) {
      throw new Error(
        "The request body has not been read. Declare `reads: ['request.body']` or await body.load().",
      );
    }
    return this.decoded;
  }

  get text(): string {
    this.decodedText ??= this.bytes.toString('utf8');
    return this.decodedText;
  }

  get json(): JsonValue | undefined {
    if (this.passesUnread && this.decoded === undefined) return undefined;
    if (!this.isParsed) {
      this.isParsed = true;
      this.parsed = this.mayBeJson() ? parseJson(this.text) : undefined;
    }
    return this.parsed;
  }

  /** Avoids turning megabytes that begin neither object nor list into text only to find that they are not JSON. */
  private mayBeJson(): boolean {
    const { bytes } = this;
    return bytes.length > 0 && (bytes.length <= largeBytes || beginsDocument(bytes));
  }

  /** The document, where it is an object that is large: changing it writes no more than it has to. */
  get large(): LargeDocument | undefined {
    return this.largeDocument;
  }

  /** The bytes have been parsed already, and are a JSON object or list. */
  get isJsonDocument(): boolean {
    return this.isParsed ? typeof this.parsed === 'object' && this.parsed !== null : this.isDocument;
  }

  /**
   * Releases the text and the parsed JSON, which take several times the memory of the bytes, once the answer has begun
   * and may last. They are made again for the next caller.
   */
  keepBytesOnly(): void {
    if (this.decoded === undefined) return;
    this.source.releaseParsing();
    this.isDocument = this.isJsonDocument;
    this.isParsed = false;
    this.parsed = undefined;
    this.decodedText = undefined;
    this.largeDocument = undefined;
  }

  /**
   * Counts memory that is kept for this request beside its body. Throws `overloaded` when there is no room; `isSpare`, for
   * optional data, leaves a share of the memory to others.
   */
  hold(bytes: number, isSpare?: boolean): void {
    this.source.hold(bytes, isSpare);
  }

  set(path: JsonPath, value: JsonValue): void {
    if (this.largeDocument !== undefined && path.length > 0)
      return this.replaceLarge(this.largeDocument.set(path, value));
    requireJson(this.json);
    this.replace(setAt(this.text, path, value));
  }

  remove(path: JsonPath): void {
    if (this.largeDocument !== undefined) return this.replaceLarge(this.largeDocument.remove(path));
    requireJson(this.json);
    const text = removeAt(this.text, path);
    if (text !== this.text) this.replace(text);
  }

  stream(): Readable {
    if (this.consumed) throw new Error('The request body has been read; send body.outgoing instead.');
    return this.source.streamBody();
  }

  get contentEncoding(): string | undefined {
    return this.changed ? undefined : this.source.header('content-encoding');
  }

  get outgoing(): Buffer {
    return this.changed ? this.bytes : (this.received ?? this.bytes);
  }

  private async decode(received: Buffer, coding: Coding): Promise<Buffer> {
    try {
      return await decodeWhole(received, coding, this.bounds.maxBytes, (bytes) => this.source.hold(bytes));
    } catch (error) {
      if (error instanceof GatewayError) throw error;
      if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') {
        throw new GatewayError(
          'body_too_large',
          `The request body is larger than ${this.bounds.maxBytes} bytes when decoded.`,
        );
      }
      throw new GatewayError('invalid_request', `The request body is no valid ${coding} data.`, {
        cause: error,
      });
    }
  }

  private replaceLarge(document: LargeDocument): void {
    if (document === this.largeDocument) return;
    this.largeDocument = document;
    this.decodedText = undefined;
    this.decoded = document.bytes;
    this.parsed = document.json;
    this.changed = true;
  }

  private replace(text: string): void {
    this.largeDocument = undefined;
    this.decodedText = text;
    this.decoded = Buffer.from(text, 'utf8');
    this.isParsed = false;
    this.isDocument = false;
    this.parsed = undefined;
    this.changed = true;
  }
}
