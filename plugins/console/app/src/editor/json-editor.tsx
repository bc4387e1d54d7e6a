import { useEffect, useImperativeHandle, useRef, type Ref } from 'react';
import { json } from '@codemirror/lang-json';
import { syntaxTree } from '@codemirror/language';
import { Compartment, EditorState, RangeSetBuilder } from '@codemirror/state';
import {
  Decoration,
  type DecorationSet,
  drawSelection,
  EditorView,
  gutter,
  highlightSpecialChars,
  lineNumbers,
  ViewPlugin,
  type ViewUpdate,
} from '@codemirror/view';
import type { Assisted } from '@/editor/json-assist';
import { theme } from '@/editor/theme';

/** What a page asks of an editor. */
export interface EditorHandle {
  /** Shows and selects what stands at a JSON pointer. */
  reveal(pointer: string): void;
}

interface JsonEditorProps extends Assisted {
  /** Says what the text is, to readers of the screen. */
  readonly label: string;
  readonly value: string;
  readonly onChange: (text: string) => void;
  readonly readOnly?: boolean;
  readonly handle?: Ref<EditorHandle>;
}

const loadAssist = () => import('@/editor/json-assist');

/** Keeps the place of the marks of faults, so that nothing moves when they come. */
const marginOfFaults = gutter({ class: 'cm-gutter-lint' });

/** A text of JSON with the project's own schema: completion, hover, faults at their lines. It grows with its box. */
export default function JsonEditor(props: JsonEditorProps) {
  const { label, value, readOnly = false, schema, faults = [], handle } = props;
  const box = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(null);
  const latest = useRef(props);
  latest.current = props;
  const editable = useRef(new Compartment());
  const assisted = useRef(new Compartment());

  useEffect(() => {
    if (box.current === null) return;
    const nonce = document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce ?? '';
    const made = new EditorView({
      parent: box.current,
      state: EditorState.create({
        doc: latest.current.value,
        extensions: [
          EditorView.cspNonce.of(nonce),
          highlightSpecialChars(),
          drawSelection(),
          lineNumbers(),
          json(),
          colours,
          theme,
          assisted.current.of(marginOfFaults),
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

  /** Help comes with the first focus, the pointer, or a fault to show. */
  const hasHelp = useRef(false);
  const help = (): void => {
    if (hasHelp.current) return;
    hasHelp.current = true;
    loadAssist().then(
      ({ assist }) => view.current?.dispatch({ effects: assisted.current.reconfigure(assist(latest)) }),
      // The next focus tries again; meanwhile the text can be written.
      () => void (hasHelp.current = false),
    );
  };

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
    if (faults.length > 0) help();
    if (hasHelp.current)
      void loadAssist().then(({ lookAgain }) => view.current?.dispatch({ effects: lookAgain.of(null) }));
  }, [told, schema]);

  useImperativeHandle(handle, () => ({
    reveal(pointer) {
      void loadAssist().then(({ spanAt }) => {
        const current = view.current;
        if (current === null) return;
        const { from, to } = spanAt(current.state, pointer);
        current.dispatch({ selection: { anchor: from, head: to }, scrollIntoView: true });
        current.focus();
      });
    },
  }));

  return (
    <div
      ref={box}
      role="group"
      aria-label={label}
      className="h-full min-h-0 min-w-0 overflow-hidden"
      onFocus={help}
      onPointerEnter={help}
    />
  );
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
