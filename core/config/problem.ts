/** Something wrong in a configuration file: where, what, and what to do. */
export interface Problem {
  readonly file: string;
  /** 1-based; 0 when the place is unknown (a missing file). */
  readonly line: number;
  readonly column: number;
  /** JSON pointer into the configuration: `/pipelines/0/plugins/2/params`. */
  readonly path: string;
  /** One sentence that says what is wrong and what to do, without a final period. */
  readonly message: string;
  /** Default `error`. Warnings, and notes of what cannot be checked, do not keep a configuration from being used. */
  readonly severity?: 'error' | 'warning' | 'note';
}

/** `gateway.config.yaml:12:7: unknown key "pluginz"; did you mean "plugins"?` */
export function formatProblem(problem: Problem): string {
  const place = problem.line > 0 ? `${problem.file}:${problem.line}:${problem.column}` : problem.file;
  const { severity = 'error' } = problem;
  return `${place}: ${severity === 'error' ? '' : `${severity}: `}${problem.message}`;
}

/** Whether it keeps the configuration from being used. */
export function isError({ severity = 'error' }: Problem): boolean {
  return severity === 'error';
}
