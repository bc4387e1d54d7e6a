import type { Place } from '../config/config-source.ts';
import type { Problem } from '../config/problem.ts';

/** A problem at a place of the configuration or of a plugin's source. */
export function problemAt(place: Place, path: string, message: string): Problem {
  return { file: place.file, line: place.line, column: place.column, path, message };
}
