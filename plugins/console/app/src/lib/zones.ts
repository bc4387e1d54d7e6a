/** Times as clocks of a zone show them, and back. */

/** `local`, `utc`, or the IANA name of any other zone. */
export type Zone = string;

/** The name that the runtime and the gateway know a zone by. */
export function ianaName(zone: Zone): string {
  if (zone === 'utc') return 'UTC';
  return zone === 'local' ? Intl.DateTimeFormat().resolvedOptions().timeZone : zone;
}

export function isZone(zone: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: ianaName(zone) });
    return zone !== '';
  } catch {
    return false;
  }
}

/** A format costs a hundred times what it writes: a long list makes each once. */
const clocks = new Map<string, Intl.DateTimeFormat>();

/** The date and the time that clocks of the zone show, as ISO 8601 writes them, with a space between. */
export function clockText(at: number, zone: Zone, ms = false): string {
  const name = `${zone} ${String(ms)}`;
  let format = clocks.get(name);
  if (format === undefined) {
    // Swedish writes dates as ISO 8601 does: every language can read them, and they sort.
    format = new Intl.DateTimeFormat('sv', {
      ...{ year: 'numeric', month: '2-digit', day: '2-digit' },
      ...{ hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' },
      ...(ms && { fractionalSecondDigits: 3 }),
      ...(zone !== 'local' && { timeZone: ianaName(zone) }),
    });
    clocks.set(name, format);
  }
  return format.format(at).replace(',', '.');
}

/** What clocks of the zone show, as if they were in UTC: in milliseconds, to the second. */
function wallOf(at: number, zone: Zone): number {
  return Date.parse(`${clockText(at, zone).replace(' ', 'T')}Z`);
}

const dayMs = 86_400_000;

/** The moment at which they show it: the first one when an hour comes twice, and a time that is left out is as late after the hour before. */
function momentOf(wall: number, zone: Zone): number {
  if (Number.isNaN(wall)) return wall;
  const [before, after] = [wall - dayMs, wall + dayMs].map((near) => wall - (wallOf(near, zone) - near));
  if (before === undefined || after === undefined) return NaN;
  return wallOf(before, zone) !== wall && wallOf(after, zone) === wall ? after : before;
}

/** The last midnight before a moment; where clocks skip it, the time that the day begins with. */
export function midnight(at: number, zone: Zone): number {
  const wall = wallOf(at, zone);
  return momentOf(wall - (wall % dayMs), zone);
}

/** The same time of the day before. */
export function dayBefore(at: number, zone: Zone): number {
  return momentOf(wallOf(at, zone) - dayMs, zone);
}

/** A moment as an `<input type="datetime-local">` has it in the zone, and back. */
export function toInput(at: number, zone: Zone): string {
  return new Date(wallOf(at, zone)).toISOString().slice(0, 16);
}

export function fromInput(text: string, zone: Zone): number {
  return momentOf(Date.parse(`${text}Z`), zone);
}

/** The distance of a zone's clocks from UTC at a moment: `UTC+5:30`. */
export function offsetName(zone: Zone, at = Date.now()): string {
  const format = new Intl.DateTimeFormat('en', { timeZone: ianaName(zone), timeZoneName: 'shortOffset' });
  const name = format.formatToParts(at).find(({ type }) => type === 'timeZoneName')?.value ?? '';
  return name.replace('GMT', 'UTC').replace(/[+-]0$/, '');
}
