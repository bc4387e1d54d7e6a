import {
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  completionKeymap,
  type Completion,
  type CompletionContext,
  type CompletionResult,
} from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands';
import {
  bracketMatching,
  ensureSyntaxTree,
  indentOnInput,
  indentUnit,
  syntaxTree,
} from '@codemirror/language';
import { linter, lintGutter, lintKeymap, type Diagnostic } from '@codemirror/lint';
import { type EditorState, type Extension, StateEffect } from '@codemirror/state';
import { EditorView, hoverTooltip, keymap } from '@codemirror/view';
import {
  descriptionAt,
  faultsOf,
  membersAt,
  type Place,
  type Schema,
  schemasAt,
  valuesAt,
} from '@/editor/json-schema';
import { descriptionTooltip, saveKey } from '@/editor/use-editor';
import { checks } from '@/texts/checks';

/** A fault that somebody else found, at a JSON pointer. */
export interface PointedFault {
  readonly path: string;
  readonly message: string;
}

/** What help with writing is about; read at each use, since it changes. */
export interface Assisted {
  readonly schema?: Schema | undefined;
  /** The gateway's faults. They are shown at their lines until the text changes there. */
  readonly faults?: readonly PointedFault[];
  readonly onSave?: () => void;
}

/** What faults depend on besides the text has changed. */
export const lookAgain = StateEffect.define<null>();

/**
 * What helps somebody who writes: completion, hover, faults at their lines, undo, keys. A file of its own, which the editor
 * loads at the first focus: readers need none of it.
 */
export function assist(latest: { readonly current: Assisted }): Extension {
  return [
    history(),
    bracketMatching(),
    closeBrackets(),
    indentOnInput(),
    indentUnit.of('  '),
    lintGutter(),
    linter((view) => diagnosticsOf(view.state, latest.current), {
      delay: 250,
      needsRefresh: ({ transactions }) =>
        transactions.some(({ effects }) => effects.some((effect) => effect.is(lookAgain))),
    }),
    autocompletion({
      override: [(context) => complete(context, latest.current.schema)],
      icons: false,
    }),
    hoverTooltip((view, position) => hovered(view, position, latest.current.schema)),
    keymap.of([
      saveKey(() => latest.current.onSave?.()),
      ...closeBracketsKeymap,
      ...completionKeymap,
      ...lintKeymap,
      ...historyKeymap,
      ...defaultKeymap,
    ]),
  ];
}

/** Where what stands at a JSON pointer is in the text. */
export function spanAt(state: EditorState, pointer: string): Span {
  return rangeOf(readDocument(state), segmentsOf(pointer), false);
}

type SyntaxNode = ReturnType<ReturnType<typeof syntaxTree>['resolveInner']>;

/** A value of the text, with the place of each part. */
interface Read {
  readonly value: unknown;
  readonly ranges: ReadonlyMap<string, { readonly value: Span; readonly name?: Span }>;
  readonly error: Span | undefined;
}

interface Span {
  readonly from: number;
  readonly to: number;
}

function readDocument(state: EditorState): Read {
  const ranges = new Map<string, { value: Span; name?: Span }>();
  const tree = ensureSyntaxTree(state, state.doc.length, 500) ?? syntaxTree(state);
  let error: Span | undefined;
  const text = (node: Span): string => state.sliceDoc(node.from, node.to);
  const parsed = (node: Span): unknown => {
    try {
      return JSON.parse(text(node)) as unknown;
    } catch {
      error ??= { from: node.from, to: node.to };
      return undefined;
    }
  };
  const walk = (node: SyntaxNode, place: Place, name?: Span): unknown => {
    const span = { from: node.from, to: node.to };
    ranges.set(pointerOf(place), name === undefined ? { value: span } : { value: span, name });
    if (node.name === 'Object') {
      const found: Record<string, unknown> = {};
      for (let child = node.firstChild; child !== null; child = child.nextSibling) {
        if (child.type.isError) error ??= { from: child.from, to: child.to };
        if (child.name !== 'Property') continue;
        const key = child.getChild('PropertyName');
        if (key === null) continue;
        const member = String(parsed(key));
        const last = child.lastChild;
        if (last === null || last.name === 'PropertyName' || last.type.isError) {
          error ??= { from: child.from, to: child.to };
          continue;
        }
        found[member] = walk(last, [...place, member], { from: key.from, to: key.to });
      }
      return found;
    }
    if (node.name === 'Array') {
      const found: unknown[] = [];
      for (let child = node.firstChild; child !== null; child = child.nextSibling) {
        if (child.type.isError) error ??= { from: child.from, to: child.to };
        else if (/^(Object|Array|String|Number|True|False|Null)$/.test(child.name))
          found.push(walk(child, [...place, found.length]));
      }
      return found;
    }
    return parsed(span);
  };
  const top = tree.topNode.firstChild;
  const value = top === null ? undefined : walk(top, []);
  return { value, ranges, error };
}

function diagnosticsOf(state: EditorState, { schema, faults = [] }: Assisted): readonly Diagnostic[] {
  const source = state.doc.toString();
  if (source.trim() === '') return [];
  const read = readDocument(state);
  try {
    JSON.parse(source);
  } catch (error) {
    const at = read.error ?? { from: source.length, to: source.length };
    const line = state.doc.lineAt(Math.min(at.from, state.doc.length));
    const message =
      error instanceof Error ? error.message.replace(/\s+in JSON.*|, "[^]*$/, '') : String(error);
    const span = at.to > at.from ? at : { from: line.from, to: line.to };
    return [{ ...span, severity: 'error', message: checks.notJson(message) }];
  }
  const own = schema === undefined ? [] : faultsOf(read.value, schema);
  const shown = own.map(({ place, message, isName = false }): Diagnostic => ({
    ...rangeOf(read, place, isName),
    severity: 'error',
    message,
  }));
  const lines = new Set(shown.map(({ from }) => state.doc.lineAt(from).number));
  for (const { path, message } of faults) {
    const range = rangeOf(read, segmentsOf(path), false);
    // What the schema says already is not said twice.
    if (lines.has(state.doc.lineAt(range.from).number)) continue;
    shown.push({ ...range, severity: 'error', message });
  }
  return shown;
}

/** Where a place stands in the text, or the nearest one around it; only the first line of it. */
function rangeOf({ ranges }: Read, place: Place, isName: boolean): Span {
  for (let depth = place.length; depth >= 0; depth -= 1) {
    const found = ranges.get(pointerOf(place.slice(0, depth)));
    if (found === undefined) continue;
    if (isName && depth === place.length && found.name !== undefined) return found.name;
    const { from, to } = found.value;
    // An object or a list is marked at its name, or at its bracket.
    const isLong = to - from > 120;
    return isLong ? (found.name ?? { from, to: from + 1 }) : found.value;
  }
  return { from: 0, to: 0 };
}

function pointerOf(place: Place): string {
  return place.map((step) => `/${String(step).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
}

function segmentsOf(pointer: string): Place {
  return pointer
    .split('/')
    .slice(1)
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'));
}

/** The names and indexes that lead to a node. */
function placeOf(state: EditorState, node: SyntaxNode): Place {
  const place: (string | number)[] = [];
  for (let current: SyntaxNode | null = node; current !== null; current = current.parent) {
    const { parent } = current;
    if (current.name === 'Property') {
      const key = current.getChild('PropertyName');
      if (key !== null) place.unshift(state.sliceDoc(key.from + 1, key.to - 1));
    } else if (parent?.name === 'Array') {
      let index = 0;
      for (let before = current.prevSibling; before !== null; before = before.prevSibling)
        if (!/^[[\],⚠]$/.test(before.name)) index += 1;
      place.unshift(index);
    }
  }
  return place;
}

function complete(context: CompletionContext, schema: Schema | undefined): CompletionResult | null {
  if (schema === undefined) return null;
  const { state, pos, explicit } = context;
  const node = syntaxTree(state).resolveInner(pos, -1);
  const word = context.matchBefore(/"?[\w$@.-]*/);
  const from = node.name === 'String' || node.name === 'PropertyName' ? node.from : (word?.from ?? pos);
  const to = node.name === 'String' || node.name === 'PropertyName' ? node.to : pos;
  const typed = word !== null && word.to > word.from;
  if (!explicit && !typed) return null;
  const before = state.sliceDoc(Math.max(0, from - 200), from);
  const afterColon = /:\s*$/.test(before);
  let holder: SyntaxNode | null = node;
  while (holder !== null && holder.name !== 'Object' && holder.name !== 'Array' && holder.name !== 'Property')
    holder = holder.parent;
  const inValue = afterColon || (holder?.name === 'Array' && node.name !== 'Object');
  if (inValue) {
    const place = holder === null ? [] : placeOf(state, afterColon || node.name !== 'Array' ? node : holder);
    const wanted = node.name === 'Array' && !afterColon ? [...place, 0] : place;
    const options = valuesAt(schema, wanted).map((value): Completion => ({
      label: JSON.stringify(value),
      type: 'constant',
    }));
    return options.length === 0 ? null : { from, to, options };
  }
  while (holder !== null && holder.name !== 'Object') holder = holder.parent;
  if (holder === null) return null;
  const present = new Set(
    holder.getChildren('Property').map((one) => {
      const key = one.getChild('PropertyName');
      return key === null || key.from === from ? '' : state.sliceDoc(key.from + 1, key.to - 1);
    }),
  );
  const needsColon = !/^\s*:/.test(state.sliceDoc(to, to + 20));
  const options = [...membersAt(schema, placeOf(state, holder))]
    .filter(([name]) => !present.has(name))
    .map(([name, member]): Completion => ({
      label: `"${name}"`,
      type: 'property',
      apply: needsColon ? `"${name}": ${beginningOf(member, schema)}` : `"${name}"`,
      ...(typeof member['description'] === 'string' && { info: member['description'] }),
    }));
  return options.length === 0 ? null : { from, to, options };
}

/** What a value begins with, so that the next completion comes at once. */
function beginningOf(member: Schema, root: Schema): string {
  const types = schemasAt({ ...member, $defs: root['$defs'] }, []).map(({ type }) => type);
  if (types.includes('object') && !types.includes('string')) return '{}';
  return types.includes('array') ? '[]' : '';
}

function hovered(view: EditorView, position: number, schema: Schema | undefined) {
  if (schema === undefined) return null;
  const node = syntaxTree(view.state).resolveInner(position, 1);
  if (node.name !== 'PropertyName' && node.name !== 'String') return null;
  const text = descriptionAt(schema, placeOf(view.state, node));
  return text === '' ? null : descriptionTooltip(node.from, node.to, text);
}
