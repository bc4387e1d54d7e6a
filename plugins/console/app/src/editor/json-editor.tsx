import { useEffect, useImperativeHandle, useRef, type Ref } from 'react';
import { json } from '@codemirror/lang-json';
import { syntaxTree } from '@codemirror/language';
import { Compartment, EditorState, RangeSetBuilder } from '@codemirror/state';
import { type Decoration, gutter } from '@codemirror/view';
import type { Assisted } from '@/editor/json-assist';
import { colours, type EditorProps, marks, useEditor } from '@/editor/use-editor';

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
  const { readOnly = false, schema, faults = [], handle } = props;
  const latest = useRef(props);
  latest.current = props;
  const editable = useRef(new Compartment());
  const assist = useRef<Awaited<ReturnType<typeof loadAssist>>>(undefined);
  const { frame, view, help, offer } = useEditor(props, {
    own: () => [json(), looks, editable.current.of(EditorState.readOnly.of(readOnly))],
    before: marginOfFaults,
    loadHelp: () =>
      loadAssist().then((loaded) => {
        assist.current = loaded;
        return loaded.assist(latest);
      }),
  });

  useEffect(() => {
    view.current?.dispatch({ effects: editable.current.reconfigure(EditorState.readOnly.of(readOnly)) });
  }, [readOnly]);

  // A linter runs when the text changes; what else it looks at has changed here.
  const told = JSON.stringify(faults);
  useEffect(() => {
    if (faults.length > 0) help();
    if (assist.current !== undefined) view.current?.dispatch({ effects: assist.current.lookAgain.of(null) });
  }, [told, schema]);
  useEffect(offer, [schema]);

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

  return <div {...frame} />;
}

const kinds: Readonly<Record<string, Decoration>> = {
  PropertyName: marks.name,
  String: marks.text,
  Number: marks.value,
  True: marks.value,
  False: marks.value,
  Null: marks.value,
};

/** Colours by the kinds of nodes, from the looks of the page. */
const looks = colours(
  ({ state, visibleRanges }) => {
    const builder = new RangeSetBuilder<Decoration>();
    for (const { from, to } of visibleRanges)
      syntaxTree(state).iterate({
        from,
        to,
        enter({ name, from: start, to: end }) {
          const mark = kinds[name];
          if (mark !== undefined && end > start) builder.add(start, end, mark);
        },
      });
    return builder.finish();
  },
  ({ startState, state }) => syntaxTree(startState) !== syntaxTree(state),
);
