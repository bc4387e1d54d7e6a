/** What a model can be asked for. Anthropic answers 400 to what it cannot. */
export interface ModelAbilities {
  /** `output_config.effort`. */
  readonly effort: boolean;
  /** The effort `xhigh`. */
  readonly effortXhigh: boolean;
  /** The effort `max`. */
  readonly effortMax: boolean;
  /** `thinking: { type: 'adaptive' }`. */
  readonly adaptiveThinking: boolean;
  /** `thinking: { type: 'enabled', budget_tokens }`. */
  readonly thinkingBudget: boolean;
  /** `thinking: { type: 'disabled' }`. */
  readonly thinkingOff: boolean;
  /** `temperature`, `top_p`, `top_k`. */
  readonly sampling: boolean;
  /** `temperature` and `top_p` together. */
  readonly bothSampling: boolean;
  /** `output_config.format`, and `strict` tools. */
  readonly structuredOutput: boolean;
  /** `tool_choice` of `any` and `tool`. */
  readonly forcedTool: boolean;
}

/** Families that always think. */
const alwaysThinking: ReadonlySet<string> = new Set(['fable', 'mythos']);

/** A version that no known rule is newer than: models whose name tells none are taken for the latest. */
const latest = 99;

/**
 * What Anthropic's documentation (pages on thinking, effort, structured outputs and the model overview) says of a model,
 * by its family and version, wherever they stand in the name (`anthropic.claude-opus-4-5-20251101-v1:0`). Models of
 * other makers behind this wire are taken for what it could do before effort and structured outputs came.
 */
export function abilitiesOf(model: string): ModelAbilities {
  const { family, version } = readName(model.toLowerCase());
  const alwaysThinks =
    alwaysThinking.has(family) || (version >= 5.05 && (family === 'opus' || family === 'sonnet'));
  return {
    effort: version >= 4.06 || (family === 'opus' && version >= 4.05),
    effortXhigh: version >= 4.07,
    effortMax: version >= 4.06,
    adaptiveThinking: version >= 4.06,
    thinkingBudget: version >= 3.07 && version <= 4.06,
    thinkingOff: version >= 3.07 && !alwaysThinks,
    sampling: version < 4.07,
    bothSampling: version < 4.01 || family === '',
    structuredOutput: version >= 4.05 || (family === 'opus' && version >= 4.01),
    forcedTool: !(alwaysThinks && version >= 5.01),
  };
}

/** Version 4.5 is 4.05, so that 4.10 stands behind 4.9. */
function readName(model: string): { readonly family: string; readonly version: number } {
  if (!model.includes('claude')) return { family: '', version: 4 };
  const family = /claude.*?(opus|sonnet|haiku|fable|mythos|instant)/.exec(model)?.[1] ?? 'claude';
  if (family === 'instant') return { family, version: 1 };
  // Numbers of more than two digits are dates.
  const digits = /claude(?:-[a-z]+)*-v?(\d{1,2})(?!\d)(?:[-.](\d{1,2})(?!\d))?/.exec(model);
  if (digits === null) return { family, version: latest };
  return { family, version: Number(digits[1]) + Number(digits[2] ?? 0) / 100 };
}
