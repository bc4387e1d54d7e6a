/**
 * Words for how much a model shall think and token budgets for the same. The numbers of `low`, `medium` and `high` are
 * those that Gemini's OpenAI compatibility documents; `minimal` is the least that Anthropic takes.
 */
const budgets: Readonly<Record<string, number>> = {
  minimal: 1024,
  low: 1024,
  medium: 8192,
  high: 24_576,
  xhigh: 32_768,
  max: 32_768,
};

/** The token budget that an effort stands for; undefined for `none` and words that are not known. */
export function budgetOfEffort(effort: string): number | undefined {
  return budgets[effort.toLowerCase()];
}

/** The effort that a token budget comes nearest to from above: 0 is `none`. */
export function effortOfBudget(budget: number): 'none' | 'low' | 'medium' | 'high' {
  if (budget <= 0) return 'none';
  if (budget <= 1024) return 'low';
  return budget <= 8192 ? 'medium' : 'high';
}
