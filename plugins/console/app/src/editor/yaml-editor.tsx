import { useEffect, useImperativeHandle, useRef, type Ref } from 'react';
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands';
import { bracketMatching, indentUnit } from '@codemirror/language';
import { type Diagnostic, lintGutter, lintKeymap, setDiagnostics } from '@codemirror/lint';
import { RangeSetBuilder, type Text } from '@codemirror/state';
import {
  Decoration,
  type DecorationSet,
  type EditorView,
  keymap,
  ViewPlugin,
  type ViewUpdate,
} from '@codemirror/view';
import { type EditorProps, useEditor } from '@/editor/use-editor';

/** A fault at its line and column, both from 1; 0 when the place is unknown. */
export interface PlacedFault {
  readonly line: number;
  readonly column: number;
  readonly message: string;
  readonly severity: 'error' | 'warning' | 'note';
}

/** What a page asks of the editor. */
export interface YamlEditorHandle {
  /** Shows what stands at a place. */
  reveal(line: number, column: number): void;
}

interface YamlEditorProps extends EditorProps {
  /** The gateway's faults of this text. */
  readonly faults: readonly PlacedFault[];
  readonly onSave: () => void;
  readonly handle?: Ref<YamlEditorHandle>;
}

/** A text of YAML whose faults are the gateway's. It grows with its box. */
export default function YamlEditor(props: YamlEditorProps) {
  const { label, faults, handle } = props;
  const save = useRef(props.onSave);
  save.current = props.onSave;
  const { box, view } = useEditor(props, () => [
    keymap.of([
      {
        key: 'Mod-s',
        preventDefault: true,
        run: () => {
          save.current();
          return true;
        },
      },
    ]),
    history(),
    keymap.of([...defaultKeymap, ...historyKeymap, ...lintKeymap]),
    bracketMatching(),
    indentUnit.of('  '),
    colours,
    lintGutter(),
  ]);

  useEffect(() => {
    const current = view.current;
    if (current === null) return;
    const shown = faults.map((fault) => diagnosticOf(fault, current.state.doc));
    current.dispatch(setDiagnostics(current.state, shown));
  }, [faults]);

  useImperativeHandle(handle, () => ({
    reveal(line, column) {
      const current = view.current;
      if (current === null) return;
      current.dispatch({
        selection: { anchor: offsetOf(current.state.doc, line, column) },
        scrollIntoView: true,
      });
      current.focus();
    },
  }));

  return <div ref={box} role="group" aria-label={label} className="h-full min-h-0 min-w-0 overflow-hidden" />;
}

const meant = /unknown key "([^"]+)".*did you mean "([^"]+)"\?/;

/** The fault at its word; one press puts in the word that was meant. */
function diagnosticOf({ line, column, message, severity }: PlacedFault, doc: Text): Diagnostic {
  const from = offsetOf(doc, line, column);
  const { to: end } = doc.lineAt(from);
  const word = /^["']?[\w$./@-]*["']?/.exec(doc.sliceString(from, end))?.[0].length ?? 0;
  const [, wrong = '', right = ''] = meant.exec(message) ?? [];
  const at = right === '' ? -1 : doc.sliceString(from, Math.min(end, from + wrong.length + 1)).indexOf(wrong);
  return {
    ...{ from, to: from + word, message },
    severity: severity === 'note' ? 'info' : severity,
    ...(at !== -1 && {
      actions: [
        {
          name: right,
          apply: (editor: EditorView) =>
            editor.dispatch({
              changes: { from: from + at, to: from + at + wrong.length, insert: right },
            }),
        },
      ],
    }),
  };
}

function offsetOf(doc: Text, line: number, column: number): number {
  const found = doc.line(Math.min(Math.max(1, line), doc.lines));
  return Math.min(found.from + Math.max(0, column - 1), found.to);
}

const looks = {
  name: Decoration.mark({ class: 'weir-name' }),
  text: Decoration.mark({ class: 'weir-text' }),
  value: Decoration.mark({ class: 'weir-value' }),
  comment: Decoration.mark({ class: 'weir-comment' }),
} as const;
/** Comments, texts in quotes, names before a colon, numbers and words of YAML. Blocks of text are not told apart. */
const parts =
  /(?<comment>(?:^|\s)#.*$)|(?<name>(?:"[^"]*"|'[^']*'|[\w$./@*-]+)(?=\s*:(?:\s|$)))|(?<text>"(?:[^"\\]|\\.)*"|'[^']*')|(?<value>(?<![\w.-])(?:\d+(?:\.\d+)?|true|false|null)(?![\w.-]))/g;

const colours = ViewPlugin.fromClass(
  class {
    decorations: DecorationSet;
    constructor(view: EditorView) {
      this.decorations = coloured(view);
    }
    update(update: ViewUpdate) {
      if (update.docChanged || update.viewportChanged) this.decorations = coloured(update.view);
    }
  },
  { decorations: (plugin) => plugin.decorations },
);

function coloured({ state: { doc }, visibleRanges }: EditorView): DecorationSet {
  const builder = new RangeSetBuilder<Decoration>();
  for (const { from, to } of visibleRanges)
    for (let at = from; at <= to;) {
      const line = doc.lineAt(at);
      for (const { index, 0: found, groups = {} } of line.text.matchAll(parts))
        for (const kind of ['comment', 'name', 'text', 'value'] as const)
          if (groups[kind] !== undefined)
            builder.add(line.from + index, line.from + index + found.length, looks[kind]);
      at = line.to + 1;
    }
  return builder.finish();
}
