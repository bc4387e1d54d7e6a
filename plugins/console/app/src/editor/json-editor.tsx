import { useEffect, useImperativeHandle, useRef, type Ref } from 'react';
import { json } from '@codemirror/lang-json';
import { syntaxTree } from '@codemirror/language';
import { Compartment, EditorState, RangeSetBuilder } from '@codemirror/state';
import {
  Decoration,
  type DecorationSet,
  type EditorView,
  gutter,
  ViewPlugin,
  type ViewUpdate,
} from '@codemirror/view';
import type { Assisted } from '@/editor/json-assist';
import { type EditorProps, useEditor } from '@/editor/use-editor';

/** What a page asks of an editor. */
export interface EditorHandle {
  /** Shows and selects what stands at a JSON pointer. */
  reveal(pointer: string): void;
}

export interface JsonEditorProps extends EditorProps, Assisted {
  readonly readOnly?: boolean;
  readonly handle?: Ref<EditorHandle>;
}

const loadAssist = () => import('@/editor/json-assist');

/** Keeps the place of the marks of faults, so that nothing moves when they come. */
const marginOfFaults = gutter({ class: 'cm-gutter-lint' });

/** A text of JSON with the project's own schema: completion, hover, faults at their lines. It grows with its box. */
export default function JsonEditor(props: JsonEditorProps) {
  const { label, readOnly = false, schema, faults = [], handle } = props;
  const latest = useRef(props);
  latest.current = props;
  const editable = useRef(new Compartment());
  const assisted = useRef(new Compartment());
  const { box, view } = useEditor(props, () => [
    json(),
    colours,
    assisted.current.of(marginOfFaults),
    editable.current.of(EditorState.readOnly.of(readOnly)),
  ]);

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
