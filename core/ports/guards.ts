/** Something wrong with the parameters of a check. */
export interface CheckIssue {
  /** JSON pointer into the parameters. */
  readonly path: string;
  readonly message: string;
}

/** The checks that guardrails can be made of: what the gateway's own guard plugins do. */
export interface Guards {
  /** Every id, sorted: names of plugins (`add-prefix`), and what existing guardrails call them (`default.addPrefix`). */
  readonly ids: readonly string[];
  /** What is wrong with the parameters of a check; undefined when there is no check of this id. */
  issues(id: string, parameters: unknown): readonly CheckIssue[] | undefined;
}
