import { EditorView } from '@codemirror/view';

const tooltip = {
  backgroundColor: 'var(--c-panel)',
  color: 'var(--c-ink)',
  border: '1px solid var(--c-line)',
  borderRadius: '6px',
  maxWidth: '32rem',
};
/** The looks of the editors, from the looks of the page. */
export const theme = EditorView.theme({
  '&': { height: '100%', backgroundColor: 'var(--c-panel)', color: 'var(--c-ink)', fontSize: '13px' },
  '&.cm-focused': { outline: '2px solid var(--c-accent)', outlineOffset: '-2px' },
  '.cm-scroller': {
    fontFamily: "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace",
    lineHeight: '1.6',
  },
  '.cm-content': { caretColor: 'var(--c-ink)' },
  '.cm-cursor': { borderLeftColor: 'var(--c-ink)' },
  '.cm-gutters': { backgroundColor: 'var(--c-panel)', color: 'var(--c-soft)', border: 'none' },
  '.cm-gutter-lint': { width: '1.4em' },
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
  '.weir-comment': { color: 'var(--c-soft)' },
  '.weir-text, .weir-text *': { color: 'var(--c-good)' },
  '.weir-value, .weir-value *': { color: 'var(--c-warn)' },
});
