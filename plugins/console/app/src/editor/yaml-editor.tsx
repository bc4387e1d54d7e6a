import { useEffect, useImperativeHandle, useRef, useState, type Ref } from 'react';
import { useQuery } from '@tanstack/react-query';
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands';
import { bracketMatching, foldGutter, foldKeymap, foldService, indentUnit } from '@codemirror/language';
import { type Diagnostic, lintGutter, lintKeymap, setDiagnostics } from '@codemirror/lint';
import { EditorState, RangeSetBuilder, type Text } from '@codemirror/state';
import { type Decoration, EditorView, keymap } from '@codemirror/view';
import { api, dataOf } from '@/api/client';
import { colours, type EditorProps, marks, saveKey, useEditor } from '@/editor/use-editor';
import { yamlPartsOf } from '@/editor/yaml-parts';

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

interface YamlEditorProps extends Omit<EditorProps, 'onChange'> {
  /** The text is shown to be read: it takes no changes. */
  readonly readOnly?: boolean;
  readonly onChange?: (text: string) => void;
  /** The gateway's faults of this text. */
  readonly faults?: readonly PlacedFault[];
  readonly onSave?: () => void;
  readonly handle?: Ref<YamlEditorHandle>;
}

const noFaults: readonly PlacedFault[] = [];
const ignore = (): void => undefined;

/**
 * The text of the configuration file, whose faults are the gateway's: completion while it is written, and what its names
 * mean under the pointer. It grows with its box.
 */
export default function YamlEditor(props: YamlEditorProps) {
  const { readOnly = false, faults = noFaults, onChange = ignore, handle } = props;
  const save = useRef(props.onSave);
  save.current = props.onSave;
  // The schema and what reads it come with the first focus or pointer.
  const [isUsed, setUsed] = useState(false);
  const { data: found } = useQuery({
    queryKey: ['config-file-schema'],
    queryFn: ({ signal }) => dataOf(api.GET('/admin/config-file/schema', { signal })),
    enabled: isUsed,
    staleTime: Infinity,
  });
  const schema = useRef(found);
  schema.current = found;
  const { frame, view, offer } = useEditor(
    { ...props, onChange },
    {
      own: () => [
        EditorState.readOnly.of(readOnly),
        // Otherwise a browser would put in what is typed, before it is taken back.
        EditorView.editable.of(!readOnly),
        keymap.of([saveKey(() => save.current?.())]),
        history(),
        keymap.of([...defaultKeymap, ...historyKeymap, ...lintKeymap, ...foldKeymap]),
        bracketMatching(),
        indentUnit.of('  '),
        looks,
        foldByIndent,
        foldGutter(),
        readOnly ? [] : lintGutter(),
      ],
      loadHelp: () => {
        setUsed(true);
        return import('@/editor/yaml-assist').then(({ assist }) => assist(() => schema.current, readOnly));
      },
    },
  );
  useEffect(offer, [found]);

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

  return <div {...frame} />;
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

/** A line folds what is indented deeper below it, with the items of a list that stand under its name. */
const foldByIndent = foldService.of(({ doc }, from, to) => {
  const text = doc.sliceString(from, to);
  if (/^\s*(?:#|$)/.test(text)) return null;
  const indent = indentOf(text);
  const isName = /:\s*(?:#.*)?$/.test(text) && !/^\s*-\s/.test(text);
  let end = to;
  for (let number = doc.lineAt(from).number + 1; number <= doc.lines; number += 1) {
    const line = doc.line(number);
    if (line.text.trim() === '') continue;
    const isDeeper = indentOf(line.text) > indent;
    const isItem = isName && indentOf(line.text) === indent && /^\s*-(?:\s|$)/.test(line.text);
    if (!isDeeper && !isItem) break;
    end = line.to;
  }
  return end > to ? { from: to, to: end } : null;
});

function indentOf(text: string): number {
  return text.length - text.trimStart().length;
}

const looks = colours(({ state: { doc }, visibleRanges }) => {
  const builder = new RangeSetBuilder<Decoration>();
  for (const { from, to } of visibleRanges)
    for (let at = from; at <= to;) {
      const line = doc.lineAt(at);
      for (const { kind, from: start, to: end } of yamlPartsOf(line.text))
        builder.add(line.from + start, line.from + end, marks[kind]);
      at = line.to + 1;
    }
  return builder.finish();
});
