/** Time format of rows: `YYYY-MM-DD HH:MM:SS.mmm` in UTC. `at` in milliseconds since the epoch. */
export function rowTime(at: number): string {
  return new Date(at).toISOString().replace('T', ' ').slice(0, -1);
}
