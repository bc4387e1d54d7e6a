/** Texts of the editors, by what their library calls them. */
export const editor = {
  phrases: {
    Completions: 'Completions',
    Diagnostics: 'Faults',
    'No diagnostics': 'No faults',
    'Fold line': 'Fold line',
    'Unfold line': 'Unfold line',
    'Folded lines': 'Folded: lines',
    'Unfolded lines': 'Unfolded: lines',
    to: 'to',
    'folded code': 'folded lines',
    unfold: 'Unfold',
    'Selection deleted': 'The selection is deleted.',
    'Control character': 'Control character',
    close: 'Close',
  },
} as const;
