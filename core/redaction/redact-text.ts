import type { FindSpans, Span } from './named-patterns.ts';

/** A finder of text to redact, with its replacement. */
export interface TextRule {
  readonly find: FindSpans;
  readonly replacement: string;
}

/** A span of a text with its replacement. */
export interface Cut extends Span {
  readonly replacement: string;
}

/** All spans that the rules find, in order; of two that overlap, the earlier rule wins. */
export function cutsOf(text: string, rules: readonly TextRule[]): readonly Cut[] {
  let cuts: Cut[] = [];
  for (const { find, replacement } of rules) {
    const found: Cut[] = [];
    for (const { start, end } of find(text)) if (end > start) found.push({ start, end, replacement });
    cuts = cuts.length === 0 ? found : merged(cuts, found);
  }
  return cuts;
}

/** The text with its cuts applied. */
export function redactText(text: string, rules: readonly TextRule[]): string {
  const cuts = text === '' ? [] : cutsOf(text, rules);
  if (cuts.length === 0) return text;
  let redacted = '';
  let from = 0;
  for (const { start, end, replacement } of cuts) {
    redacted += text.slice(from, start) + replacement;
    from = end;
  }
  return redacted + text.slice(from);
}

/**
 * The same for a text in pieces: a span may cross several of them. Each replacement goes to the piece in which its span
 * begins.
 */
export function redactPieces(pieces: readonly string[], rules: readonly TextRule[]): readonly string[] {
  return redactCuts(pieces, cutsOf(pieces.join(''), rules));
}

/** Applies cuts in the joined pieces to the single pieces. */
export function redactCuts(pieces: readonly string[], cuts: readonly Cut[]): readonly string[] {
  if (cuts.length === 0) return pieces;
  let offset = 0;
  let next = 0;
  return pieces.map((piece) => {
    const end = offset + piece.length;
    let redacted = '';
    let from = offset;
    for (; next < cuts.length; next += 1) {
      const cut = cuts[next] as Cut;
      if (cut.start >= end) break;
      if (cut.start >= offset) redacted += piece.slice(from - offset, cut.start - offset) + cut.replacement;
      from = Math.min(cut.end, end);
      if (cut.end > end) break;
    }
    redacted += piece.slice(from - offset);
    offset = end;
    return redacted;
  });
}

/** Both lists in order, without those of the second that overlap one of the first. */
function merged(first: readonly Cut[], second: readonly Cut[]): Cut[] {
  const all: Cut[] = [];
  let at = 0;
  for (const cut of second) {
    for (let one = first[at]; one !== undefined && one.end <= cut.start; one = first[(at += 1)])
      all.push(one);
    const following = first[at];
    if (following === undefined || following.start >= cut.end) all.push(cut);
  }
  return [...all, ...first.slice(at)];
}
