/** One line of a difference. */
export interface DifferenceLine {
  readonly kind: 'same' | 'added' | 'removed';
  readonly text: string;
}

/** Beyond as many pairs of lines the middle is shown as removed and added, instead of being compared. */
const mostPairs = 4_000_000;

/** The lines of `after` with those of `before` that are gone, in the order of the texts. */
export function differenceOf(before: string, after: string): readonly DifferenceLine[] {
  const [left, right] = [before.split('\n'), after.split('\n')];
  let start = 0;
  while (start < left.length && start < right.length && left[start] === right[start]) start += 1;
  let end = 0;
  while (
    end < left.length - start &&
    end < right.length - start &&
    left[left.length - 1 - end] === right[right.length - 1 - end]
  )
    end += 1;
  const same = (text: string): DifferenceLine => ({ kind: 'same', text });
  return [
    ...left.slice(0, start).map(same),
    ...middle(left.slice(start, left.length - end), right.slice(start, right.length - end)),
    ...left.slice(left.length - end).map(same),
  ];
}

/** By the longest common subsequence. */
function middle(left: readonly string[], right: readonly string[]): readonly DifferenceLine[] {
  const removed = (text: string): DifferenceLine => ({ kind: 'removed', text });
  const added = (text: string): DifferenceLine => ({ kind: 'added', text });
  if (left.length === 0 || right.length === 0 || left.length * right.length > mostPairs)
    return [...left.map(removed), ...right.map(added)];
  const width = right.length + 1;
  const lengths = new Uint32Array((left.length + 1) * width);
  const at = (row: number, column: number): number => lengths[row * width + column] ?? 0;
  for (let row = left.length - 1; row >= 0; row -= 1)
    for (let column = right.length - 1; column >= 0; column -= 1)
      lengths[row * width + column] =
        left[row] === right[column]
          ? at(row + 1, column + 1) + 1
          : Math.max(at(row + 1, column), at(row, column + 1));
  const lines: DifferenceLine[] = [];
  let [row, column] = [0, 0];
  while (row < left.length && column < right.length) {
    if (left[row] === right[column]) {
      lines.push({ kind: 'same', text: left[row] ?? '' });
      row += 1;
      column += 1;
    } else if (at(row + 1, column) >= at(row, column + 1)) {
      lines.push(removed(left[row] ?? ''));
      row += 1;
    } else {
      lines.push(added(right[column] ?? ''));
      column += 1;
    }
  }
  return [...lines, ...left.slice(row).map(removed), ...right.slice(column).map(added)];
}
