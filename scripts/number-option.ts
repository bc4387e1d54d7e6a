/** Range of an option. */
interface Range {
  /** Above 0 without it. */
  readonly least?: number;
  readonly most: number;
  readonly isWhole?: true;
}

/** The number of a command's option. Names the range and ends the process with 1 when it is none. */
export function numberOption(name: string, text: string, { least, most, isWhole }: Range): number {
  const value = Number(text);
  const isWithin = (least === undefined ? value > 0 : value >= least) && value <= most;
  if (isWithin && (isWhole !== true || Number.isInteger(value))) return value;
  const range = least === undefined ? `above 0 and up to ${most}` : `from ${least} to ${most}`;
  console.error(`--${name} takes a ${isWhole === true ? 'whole ' : ''}number ${range}, not "${text}".`);
  process.exit(1);
}
