import { useEffect, useRef, type Ref } from 'react';
import { useImperativeHandle } from 'react';
import { minimalSetup } from 'codemirror';
import {
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  completionKeymap,
  type Completion,
  type CompletionContext,
  type CompletionResult,
} from '@codemirror/autocomplete';
import { json } from '@codemirror/lang-json';
import {
  bracketMatching,
  ensureSyntaxTree,
  indentOnInput,
  indentUnit,
  syntaxTree,
} from '@codemirror/language';
import { linter, lintGutter, lintKeymap, type Diagnostic } from '@codemirror/lint';
import { Compartment, EditorState, RangeSetBuilder, StateEffect } from '@codemirror/state';
import {
  Decoration,
  type DecorationSet,
  EditorView,
  hoverTooltip,
  keymap,
  lineNumbers,
  ViewPlugin,
  type ViewUpdate,
} from '@codemirror/view';
import {
  descriptionAt,
  faultsOf,
  membersAt,
  type Place,
  type Schema,
  schemasAt,
  valuesAt,
} from '@/editor/json-schema';

/** A fault that somebody else found, at a JSON pointer. */
export interface PointedFault {
  readonly path: string;
  readonly message: string;
}

/** What a page asks of an editor. */
export interface EditorHandle {
  /** Shows and selects what stands at a JSON pointer. */
  reveal(pointer: string): void;
}

interface JsonEditorProps {
  /** Says what the text is, to readers of the screen. */
  readonly label: string;
  readonly value: string;
  readonly onChange: (text: string) => void;
  readonly schema?: Schema | undefined;
  /** The gateway's faults. They are shown at their lines until the text changes there. */
  readonly faults?: readonly PointedFault[];
  readonly readOnly?: boolean;
  readonly onSave?: () => void;
  readonly handle?: Ref<EditorHandle>;
}

/** What faults depend on besides the text has changed. */
const lookAgain = StateEffect.define<null>();

type SyntaxNode = ReturnType<ReturnType<typeof syntaxTree>['resolveInner']>;

/** A text of JSON with the project's own schema: completion, hover, faults at their lines. It grows with its box. */
export default function JsonEditor(props: JsonEditorProps) {
  const { label, value, readOnly = false, schema, faults = [], handle } = props;
  const box = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(null);
  const latest = useRef(props);
  latest.current = props;
  const editable = useRef(new Compartment());

  useEffect(() => {
    if (box.current === null) return;
    const nonce = document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce ?? '';
    const made = new EditorView({
      parent: box.current,
      state: EditorState.create({
        doc: latest.current.value,
        extensions: [
          EditorView.cspNonce.of(nonce),
          minimalSetup,
          lineNumbers(),
          bracketMatching(),
          closeBrackets(),
          indentOnInput(),
          indentUnit.of('  '),
          json(),
          colours,
          theme,
          lintGutter(),
          linter((one) => diagnosticsOf(one.state, latest.current), {
            delay: 250,
            needsRefresh: ({ transactions }) =>
              transactions.some(({ effects }) => effects.some((effect) => effect.is(lookAgain))),
          }),
          autocompletion({
            override: [(context) => complete(context, latest.current.schema)],
            icons: false,
          }),
          hoverTooltip((one, position) => hovered(one, position, latest.current.schema)),
          keymap.of([
            {
              key: 'Mod-s',
              preventDefault: true,
              run: () => {
                latest.current.onSave?.();
                return true;
              },
            },
            ...closeBracketsKeymap,
            ...completionKeymap,
            ...lintKeymap,
          ]),
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({ 'aria-label': latest.current.label, tabindex: '0' }),
          editable.current.of(EditorState.readOnly.of(latest.current.readOnly === true)),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) latest.current.onChange(update.state.doc.toString());
          }),
        ],
      }),
    });
    view.current = made;
    return () => {
      view.current = null;
      made.destroy();
    };
  }, []);

  useEffect(() => {
    const current = view.current;
    if (current === null || current.state.doc.toString() === value) return;
    current.dispatch({ changes: { from: 0, to: current.state.doc.length, insert: value } });
  }, [value]);

  useEffect(() => {
    view.current?.dispatch({ effects: editable.current.reconfigure(EditorState.readOnly.of(readOnly)) });
  }, [readOnly]);

  // A linter runs when the text changes; what else it looks at has changed here.
  const told = JSON.stringify(faults);
  useEffect(() => {
    const current = view.current;
    if (current === null) return;
    current.dispatch({ effects: lookAgain.of(null) });
  }, [told, schema]);

  useImperativeHandle(handle, () => ({
    reveal(pointer) {
      const current = view.current;
      if (current === null) return;
      const range = rangeOf(readDocument(current.state), segmentsOf(pointer), false);
      current.dispatch({ selection: { anchor: range.from, head: range.to }, scrollIntoView: true });
      current.focus();
    },
  }));

  return <div ref={box} role="group" aria-label={label} className="h-full min-h-0 min-w-0 overflow-hidden" />;
}

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

function diagnosticsOf(state: EditorState, { schema, faults = [] }: JsonEditorProps): readonly Diagnostic[] {
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
    return [{ ...span, severity: 'error', message: `This is no JSON yet. ${message}.` }];
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
  if (text === '') return null;
  return {
    pos: node.from,
    end: node.to,
    create() {
      const dom = document.createElement('div');
      dom.className = 'weir-hover';
      dom.textContent = text;
      return { dom };
    },
  };
}

const marks: Readonly<Record<string, Decoration>> = Object.fromEntries(
  [
    ['PropertyName', 'weir-name'],
    ['String', 'weir-text'],
    ['Number', 'weir-value'],
    ['True', 'weir-value'],
    ['False', 'weir-value'],
    ['Null', 'weir-value'],
  ].map(([name, className]) => [name, Decoration.mark({ class: className ?? '' })]),
);

/** Colours by the kinds of nodes, from the looks of the page. */
const colours = ViewPlugin.fromClass(
  class {
    decorations: DecorationSet;
    constructor(view: EditorView) {
      this.decorations = coloured(view);
    }
    update(update: ViewUpdate) {
      if (
        update.docChanged ||
        update.viewportChanged ||
        syntaxTree(update.startState) !== syntaxTree(update.state)
      )
        this.decorations = coloured(update.view);
    }
  },
  { decorations: (plugin) => plugin.decorations },
);

function coloured(view: EditorView): DecorationSet {
  const builder = new RangeSetBuilder<Decoration>();
  for (const { from, to } of view.visibleRanges)
    syntaxTree(view.state).iterate({
      from,
      to,
      enter({ name, from: start, to: end }) {
        const mark = marks[name];
        if (mark !== undefined && end > start) builder.add(start, end, mark);
      },
    });
  return builder.finish();
}

const tooltip = {
  backgroundColor: 'var(--c-panel)',
  color: 'var(--c-ink)',
  border: '1px solid var(--c-line)',
  borderRadius: '6px',
  maxWidth: '32rem',
};
const theme = EditorView.theme({
  '&': { height: '100%', backgroundColor: 'var(--c-panel)', color: 'var(--c-ink)', fontSize: '13px' },
  '&.cm-focused': { outline: '2px solid var(--c-accent)', outlineOffset: '-2px' },
  '.cm-scroller': {
    fontFamily: "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace",
    lineHeight: '1.6',
  },
  '.cm-content': { caretColor: 'var(--c-ink)' },
  '.cm-cursor': { borderLeftColor: 'var(--c-ink)' },
  '.cm-gutters': { backgroundColor: 'var(--c-panel)', color: 'var(--c-soft)', border: 'none' },
  '.cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground': {
    backgroundColor: 'var(--c-accent-wash)',
  },
  '&.cm-focused .cm-matchingBracket': {
    backgroundColor: 'var(--c-raised)',
    outline: '1px solid var(--c-line)',
  },
  '.cm-tooltip': tooltip,
  '.cm-tooltip-autocomplete ul li[aria-selected]': {
    backgroundColor: 'var(--c-accent-wash)',
    color: 'var(--c-accent)',
  },
  '.cm-completionInfo': { ...tooltip, padding: '6px 10px' },
  '.weir-hover': { padding: '6px 10px', maxWidth: '32rem' },
  '.cm-diagnostic': { padding: '6px 10px' },
  '.weir-name, .weir-name *': { color: 'var(--c-accent)' },
  '.weir-text, .weir-text *': { color: 'var(--c-good)' },
  '.weir-value, .weir-value *': { color: 'var(--c-warn)' },
});
