let second = Number.NaN;
let written = '';

/**
 * Milliseconds since the epoch as `YYYY-MM-DD HH:MM:SS.mmm` in UTC. The part down to the second is remembered:
 * requests that come in the same second share it.
 */
export function createdAt(at: number): string {
  const whole = Math.floor(at / 1000);
  if (whole !== second) {
    written = new Date(whole * 1000).toISOString().slice(0, 19).replace('T', ' ');
    second = whole;
  }
  const rest = Math.floor(at - whole * 1000);
  return `${written}.${rest < 10 ? '00' : rest < 100 ? '0' : ''}${rest}`;
}
