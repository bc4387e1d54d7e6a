import type { HostFacts } from '../../../core/dialects/host-facts.ts';

/** OpenAI's models that think: they refuse `max_tokens`. Also behind a router's prefix (`openai/gpt-5`). */
const thinking = /^(?:[^/]+\/)*(?:o\d|gpt-5)/i;
const openAi = /^(?:[^/]+\/)*(?:o\d|gpt-|chatgpt-)/i;
const gemini = /gemini/i;

/** The name under which a limit of the output goes to this host's model. */
export function outputLimitName({ model, quirks }: HostFacts): string {
  const name = thinking.test(model) ? 'max_completion_tokens' : 'max_tokens';
  return quirks.rename?.[name] ?? name;
}

/** OpenAI's own models take no thoughts back. */
export function takesThoughts({ model, quirks }: HostFacts): boolean {
  return !openAi.test(model) && quirks.drop?.includes('reasoning_content') !== true;
}

/** Google's compatibility API wants the proof of thinking of its calls back. */
export function takesSignatures({ model }: HostFacts): boolean {
  return gemini.test(model);
}

/**
 * Whether the host takes a member that OpenAI does not have (`top_k`, `cache_control`): its row says so by naming it,
 * be it by its own name (`rename: { top_k: top_k }`).
 */
export function takes(host: HostFacts, member: string): boolean {
  return host.quirks.rename?.[member] !== undefined;
}
