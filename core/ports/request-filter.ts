/** Bounds, both included; an absent one bounds nothing. */
export interface Between {
  readonly min?: number;
  readonly max?: number;
}

/**
 * Which requests are meant. All conditions hold at once; of a list, any one of its values, compared whole and with
 * regard to case. An absent condition always holds, an empty list never.
 */
export interface RequestFilter {
  readonly aiServices?: readonly string[];
  /** As answered. */
  readonly models?: readonly string[];
  /** A model of one kind of provider. */
  readonly serviceModels?: readonly { readonly service: string; readonly model: string }[];
  readonly providers?: readonly string[];
  readonly virtualKeys?: readonly string[];
  readonly configs?: readonly string[];
  readonly prompts?: readonly string[];
  readonly apiKeys?: readonly string[];
  readonly workspaces?: readonly string[];
  /** Who sent it: the metadata `_user`, else the user whose key it was. */
  readonly users?: readonly string[];
  readonly traceIds?: readonly string[];
  readonly spanIds?: readonly string[];
  readonly endpoints?: readonly string[];
  readonly cacheStatuses?: readonly string[];
  readonly statusCodes?: readonly number[];
  readonly isSuccess?: boolean;
  /** Every one of these pairs; at most 20. */
  readonly metadata?: Readonly<Record<string, string>>;
  readonly promptTokens?: Between;
  readonly completionTokens?: Between;
  readonly totalTokens?: Between;
  /** US dollars. */
  readonly cost?: Between;
  readonly latencyMs?: Between;
  /** The weighted average (value × weight over the weights) of the feedback of its trace; requests without feedback do not match. */
  readonly weightedFeedback?: Between;
  /** Part of a logged body, of the request or the answer, without regard to case; at most 256 characters. */
  readonly text?: string;
}
