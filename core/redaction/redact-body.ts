import type { PathRule } from './json-path.ts';
import { redactPieces, redactText, type TextRule } from './redact-text.ts';
import { scanJson, type Leaf, type Scan } from './scan-json.ts';

/** What must not be logged. */
export interface BodyRules {
  readonly paths: readonly PathRule[];
  readonly texts: readonly TextRule[];
}

/** Members in which streams send a text bit by bit. */
const told =
  /\.(?:content|text|delta|arguments|partial_json|thinking|refusal|reasoning|reasoning_content|transcript|completion|input)$/;

/** A text or JSON with what must not be logged replaced. Yields between its parts, so that a long one can be paused. */
export function* redactDocument(text: string, rules: BodyRules): Generator<void, string> {
  const scan = scanJson(text, rules.paths, rules.texts.length > 0);
  yield* redactLeaves([scan], rules.texts);
  return scan.pieces.join('');
}

/**
 * The same for server-sent events: paths apply to the JSON of each event, and patterns to what the events say together,
 * because a name may come letter by letter.
 */
export function* redactEvents(text: string, rules: BodyRules): Generator<void, string> {
  const parts: (string | Scan)[] = [];
  const scans: Scan[] = [];
  let data: string[] = [];
  const close = (): void => {
    if (data.length === 0) return;
    const scan = scanJson(data.join('\n'), rules.paths, rules.texts.length > 0);
    scans.push(scan);
    parts.push(scan);
    data = [];
  };
  for (const line of text.split(/\r\n|\n|\r/)) {
    if (line.startsWith('data:')) {
      data.push(line.slice(line[5] === ' ' ? 6 : 5));
      continue;
    }
    close();
    parts.push(redactText(line, rules.texts));
  }
  close();
  yield;
  yield* redactLeaves(scans, rules.texts);
  return parts.map((part) => (typeof part === 'string' ? part : linesOf(part))).join('\n');
}

function linesOf({ pieces }: Scan): string {
  return `data: ${pieces.join('').replaceAll('\n', '\ndata: ')}`;
}

interface Told {
  readonly pieces: string[];
  readonly leaf: Leaf;
}

function* redactLeaves(scans: readonly Scan[], rules: readonly TextRule[]): Generator<void> {
  const streams = new Map<string, Told[]>();
  let length = 0;
  for (const { pieces, leaves, indexes } of scans) {
    for (const leaf of leaves) {
      if (leaf.kind !== 'number' && leaf.kind !== 'name' && told.test(leaf.place)) {
        const stream = `${indexes}${leaf.place}`;
        const known = streams.get(stream);
        if (known === undefined) streams.set(stream, [{ pieces, leaf }]);
        else known.push({ pieces, leaf });
        continue;
      }
      replace(pieces, leaf, redactText(leaf.text, rules));
      length += leaf.text.length;
      if (length < 4096) continue;
      length = 0;
      yield;
    }
  }
  for (const stream of streams.values()) {
    const redacted = redactPieces(
      stream.map(({ leaf }) => leaf.text),
      rules,
    );
    for (const [index, { pieces, leaf }] of stream.entries()) replace(pieces, leaf, redacted[index] ?? '');
    yield;
  }
}

function replace(pieces: string[], { piece, text, kind }: Leaf, redacted: string): void {
  if (redacted === text) return;
  if (kind === 'rest') pieces[piece] = redacted;
  else pieces[piece] = kind === 'open' ? JSON.stringify(redacted).slice(0, -1) : JSON.stringify(redacted);
}
