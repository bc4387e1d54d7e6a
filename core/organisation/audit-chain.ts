interface Place {
  readonly number: number;
  readonly hash: string;
}

/**
 * The reason why the last record of a chain is not its end, as the store keeps the end apart from the chain; undefined
 * when it is.
 */
export function endFault(last: Place, head: Place): string | undefined {
  const { number } = last;
  if (number < head.number)
    return `record ${number + 1} and everything behind it, up to record ${head.number}, was removed`;
  if (number > head.number)
    return `record ${head.number + 1} was added behind the end that the store keeps, record ${head.number}`;
  return last.hash === head.hash
    ? undefined
    : `record ${number} is not the one that the store keeps as the end`;
}
