import { LineCounter, parseDocument } from 'yaml';
import { childPointer, isJsonObject, pointerSegments } from '../../../core/base/json.ts';
import { scanYaml } from '../../../core/base/scan-yaml.ts';
import { boundedPlace } from '../../../core/errors/gateway-error.ts';
import { percentDecoded } from '../../../core/base/bytes.ts';

/** Deepest nesting of a document, and most values in it, those counted that aliases of YAML repeat. */
const maxNesting = 100;
const maxValues = 1_000_000;

export type JsonRecord = Readonly<Record<string, unknown>>;

/** A mistake in a document: `pointer` is its place, `reason` says what is wrong and how to mend it. */
export class DocumentMistake extends Error {
  constructor(pointer: string, reason: string) {
    super(pointer === '' ? reason : `${boundedPlace(pointer)}: ${reason}`);
    this.name = 'DocumentMistake';
  }
}

/** A value of a document with its JSON pointer. */
export interface Placed {
  readonly value: unknown;
  readonly pointer: string;
}

/** An OpenAPI document of version 3.0 or 3.1, in which local references are followed. */
export class ApiDocument {
  readonly root: JsonRecord;
  readonly version: '3.0' | '3.1';

  /** Reads JSON or YAML. Throws `DocumentMistake`. */
  constructor(text: string) {
    const value = text.trimStart().startsWith('{') ? parsedJson(text) : parsedYaml(text);
    checkSize(value);
    if (!isJsonObject(value))
      throw new DocumentMistake('', 'it is no object with "openapi", "info" and "paths"');
    this.root = value;
    this.version = versionOf(value);
  }

  /** The value itself, or the one that its `$ref` leads to. Throws `DocumentMistake` for one that leads nowhere. */
  resolved(value: unknown, pointer: string): Placed {
    let placed: Placed = { value, pointer };
    const seen = new Set<string>();
    while (isJsonObject(placed.value) && typeof placed.value['$ref'] === 'string') {
      const at = childPointer(placed.pointer, '$ref');
      placed = this.target(placed.value['$ref'], at);
      if (seen.has(placed.pointer)) throw new DocumentMistake(at, 'the reference leads back to itself');
      seen.add(placed.pointer);
    }
    return placed;
  }

  /** The place that a reference names; the value there may be another reference. `pointer` of the reference. */
  target(reference: string, pointer: string): Placed {
    if (!reference.startsWith('#')) {
      const remedy =
        'only references within the document ("#/…") are followed; bundle it into one file, or leave the operation out with "exclude"';
      throw new DocumentMistake(pointer, `it refers to another document; ${remedy}`);
    }
    const path = percentDecoded(reference.slice(1));
    if (path === undefined || !path.startsWith('/')) {
      throw new DocumentMistake(pointer, 'the reference is no JSON pointer; write "#/components/…"');
    }
    let value: unknown = this.root;
    for (const segment of pointerSegments(path)) {
      const holds = typeof value === 'object' && value !== null && Object.hasOwn(value, segment);
      if (!holds) throw new DocumentMistake(pointer, `nothing is at "${boundedPlace(path)}" in the document`);
      value = (value as JsonRecord)[segment];
    }
    return { value, pointer: path };
  }
}

function versionOf({ openapi, swagger }: JsonRecord): '3.0' | '3.1' {
  if (typeof openapi === 'string' && /^3\.[01](\.|$)/.test(openapi))
    return openapi.startsWith('3.0') ? '3.0' : '3.1';
  if (swagger !== undefined) {
    throw new DocumentMistake('/swagger', 'it is of Swagger 2.0; convert it to OpenAPI 3.0 or 3.1');
  }
  throw new DocumentMistake(
    '/openapi',
    'the version must be a text such as "3.0.3" or "3.1.0"; others are not read',
  );
}

/** Messages of the parser repeat the text, which may be no document at all; its place suffices. */
function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    const position = /at position (\d+)/.exec((error as Error).message)?.[1];
    if (position === undefined) throw new DocumentMistake('', 'it is no JSON: it ends too early');
    const lines = text.slice(0, Number(position)).split('\n');
    const place = `line ${lines.length}, column ${(lines.at(-1) ?? '').length + 1}`;
    throw new DocumentMistake('', `it is no JSON from ${place} on; correct it there`);
  }
}

function parsedYaml(text: string): unknown {
  const lines = new LineCounter();
  const at = (offset: number): string => {
    const { line, col } = lines.linePos(offset);
    return `line ${line}, column ${col}`;
  };
  if (scanYaml(text, maxNesting).tooDeepAt !== undefined) throw tooDeep();
  const document = parseDocument(text, {
    lineCounter: lines,
    merge: true,
    prettyErrors: false,
    logLevel: 'error',
  });
  const [error] = document.errors;
  if (error !== undefined) {
    const what = error.code.toLowerCase().replaceAll('_', ' ');
    throw new DocumentMistake('', `it is no YAML (${what}) at ${at(error.pos[0])}; correct it there`);
  }
  try {
    return document.toJS();
  } catch (cause) {
    if (!(cause instanceof ReferenceError)) throw cause;
    throw new DocumentMistake('', 'its aliases repeat too much, or name no anchor; write the values out');
  }
}

function tooDeep(): DocumentMistake {
  return new DocumentMistake('', `it is nested more than ${maxNesting} deep; use "$ref" for what is deeper`);
}

/** Refuses what would take too long to walk: aliases can make circles and repeat values without end. */
function checkSize(root: unknown): void {
  let values = 0;
  const walk = (value: unknown, depth: number): void => {
    values += 1;
    if (values > maxValues) throw new DocumentMistake('', `it holds more than ${maxValues} values; split it`);
    if (typeof value !== 'object' || value === null) return;
    if (depth === maxNesting) throw tooDeep();
    for (const member of Object.values(value)) walk(member, depth + 1);
  };
  walk(root, 0);
}
