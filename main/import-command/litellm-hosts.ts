// The hosts that LiteLLM knows, as providers of the gateway.

/** A kind of host: how LiteLLM reaches it without an address, and where its settings go. */
export interface LiteLLMHost {
  /** Built-in row; undefined: a host that speaks OpenAI's wire at an address of its own. */
  readonly row: string | undefined;
  /** Variable from which LiteLLM takes the key when none is given. */
  readonly key?: string;
  /** Variable from which it takes the address. */
  readonly base?: string;
  /** Address of LiteLLM where the row has none. */
  readonly address?: string;
  /** What follows the address of LiteLLM in `base_url`. */
  readonly suffix?: string;
}

const openAiLike = { row: undefined } as const;

/** By the word before the slash of a model. */
export const liteLLMHosts: ReadonlyMap<string, LiteLLMHost> = new Map<string, LiteLLMHost>([
  ['ai21', { row: 'ai21', key: 'AI21_API_KEY' }],
  ['ai21_chat', { row: 'ai21', key: 'AI21_API_KEY' }],
  ['anthropic', { row: 'anthropic', key: 'ANTHROPIC_API_KEY', suffix: '/v1' }],
  ['anyscale', { row: 'anyscale', key: 'ANYSCALE_API_KEY' }],
  ['azure', { row: 'azure-openai', key: 'AZURE_API_KEY', base: 'AZURE_API_BASE', suffix: '/openai' }],
  ['azure_ai', { row: 'azure-ai', key: 'AZURE_AI_API_KEY', base: 'AZURE_AI_API_BASE' }],
  ['azure_text', { row: 'azure-openai', key: 'AZURE_API_KEY', base: 'AZURE_API_BASE', suffix: '/openai' }],
  ['baseten', { row: 'baseten', key: 'BASETEN_API_KEY' }],
  ['bedrock', { row: 'bedrock' }],
  ['bedrock_converse', { row: 'bedrock' }],
  ['cerebras', { row: 'cerebras', key: 'CEREBRAS_API_KEY' }],
  ['cloudflare', { row: 'workers-ai', key: 'CLOUDFLARE_API_KEY' }],
  ['codestral', { row: undefined, key: 'CODESTRAL_API_KEY', address: 'https://codestral.mistral.ai/v1' }],
  ['cohere', { row: 'cohere', key: 'COHERE_API_KEY' }],
  ['cohere_chat', { row: 'cohere', key: 'COHERE_API_KEY' }],
  ['custom_openai', openAiLike],
  ['dashscope', { row: 'dashscope', key: 'DASHSCOPE_API_KEY' }],
  ['databricks', { row: 'databricks', key: 'DATABRICKS_API_KEY', base: 'DATABRICKS_API_BASE' }],
  ['deepinfra', { row: 'deepinfra', key: 'DEEPINFRA_API_KEY' }],
  ['deepseek', { row: 'deepseek', key: 'DEEPSEEK_API_KEY' }],
  ['featherless_ai', { row: 'featherless-ai', key: 'FEATHERLESS_AI_API_KEY' }],
  ['fireworks_ai', { row: 'fireworks-ai', key: 'FIREWORKS_AI_API_KEY' }],
  ['friendliai', { row: 'friendli', key: 'FRIENDLI_TOKEN' }],
  ['gemini', { row: 'google', key: 'GEMINI_API_KEY' }],
  ['github', { row: 'github', key: 'GITHUB_API_KEY' }],
  ['groq', { row: 'groq', key: 'GROQ_API_KEY' }],
  ['hosted_vllm', { row: undefined, base: 'HOSTED_VLLM_API_BASE' }],
  ['huggingface', { row: 'huggingface', key: 'HUGGINGFACE_API_KEY' }],
  ['hyperbolic', { row: 'hyperbolic', key: 'HYPERBOLIC_API_KEY' }],
  ['jina_ai', { row: 'jina', key: 'JINA_AI_API_KEY' }],
  ['lambda_ai', { row: 'lambda', key: 'LAMBDA_API_KEY' }],
  ['litellm_proxy', { row: undefined, key: 'LITELLM_PROXY_API_KEY', base: 'LITELLM_PROXY_API_BASE' }],
  ['llamafile', { row: undefined, address: 'http://127.0.0.1:8080/v1' }],
  ['lm_studio', { row: undefined, base: 'LM_STUDIO_API_BASE' }],
  ['meta_llama', { row: undefined, key: 'LLAMA_API_KEY', address: 'https://api.llama.com/compat/v1' }],
  ['minimax', { row: 'minimax', key: 'MINIMAX_API_KEY' }],
  ['mistral', { row: 'mistral-ai', key: 'MISTRAL_API_KEY' }],
  ['moonshot', { row: 'moonshot', key: 'MOONSHOT_API_KEY' }],
  ['nebius', { row: 'nebius', key: 'NEBIUS_API_KEY' }],
  ['novita', { row: 'novita-ai', key: 'NOVITA_API_KEY' }],
  ['nscale', { row: 'nscale', key: 'NSCALE_API_KEY' }],
  ['nvidia_nim', { row: 'nvidia', key: 'NVIDIA_NIM_API_KEY' }],
  ['ollama', { row: 'ollama', address: 'http://localhost:11434', suffix: '/v1' }],
  ['ollama_chat', { row: 'ollama', address: 'http://localhost:11434', suffix: '/v1' }],
  ['openai', { row: 'openai', key: 'OPENAI_API_KEY' }],
  ['openai_like', openAiLike],
  ['openrouter', { row: 'openrouter', key: 'OPENROUTER_API_KEY' }],
  ['ovhcloud', { row: 'ovhcloud', key: 'OVHCLOUD_API_KEY' }],
  ['perplexity', { row: 'perplexity-ai', key: 'PERPLEXITYAI_API_KEY' }],
  ['sambanova', { row: 'sambanova', key: 'SAMBANOVA_API_KEY' }],
  ['snowflake', { row: 'snowflake-cortex', key: 'SNOWFLAKE_JWT', base: 'SNOWFLAKE_API_BASE' }],
  ['text-completion-openai', { row: 'openai', key: 'OPENAI_API_KEY' }],
  ['together_ai', { row: 'together-ai', key: 'TOGETHERAI_API_KEY' }],
  ['vertex_ai', { row: 'vertex-ai' }],
  ['vertex_ai_beta', { row: 'vertex-ai' }],
  ['vllm', { row: undefined, base: 'HOSTED_VLLM_API_BASE' }],
  ['voyage', { row: 'voyage', key: 'VOYAGE_API_KEY' }],
  ['xai', { row: 'x-ai', key: 'XAI_API_KEY' }],
  ['xinference', { row: undefined, base: 'XINFERENCE_API_BASE' }],
  ['zai', { row: 'z-ai', key: 'ZAI_API_KEY' }],
]);

/** Hosts of LiteLLM that the gateway does not translate to, with the reason. */
export const untranslatedHosts: ReadonlyMap<string, string> = new Map([
  ['sagemaker', 'SageMaker endpoints have no common wire: call them by pass-through (provider "sagemaker")'],
  ['sagemaker_chat', 'SageMaker endpoints have no common wire: call them by pass-through'],
  ['replicate', 'Replicate has no chat wire: call it by pass-through (provider "replicate")'],
  ['oci', 'OCI signatures are not made; the provider "oracle" takes an API key of OCI Generative AI'],
  ['watsonx', 'watsonx.ai needs a token of IBM Cloud, which the gateway does not fetch'],
  [
    'auto_router',
    'no router learns which model to ask: write a config with conditions over the request, or with strategy least-cost or least-latency',
  ],
  ['bedrock_mantle', 'write a provider "bedrock-mantle" with a Bedrock API key'],
]);

/** The host that LiteLLM takes for a model without a prefix; undefined for one that its map of models decides. */
export function hostOfBareModel(model: string): string | undefined {
  if (
    /^(gpt-|o\d|chatgpt-|dall-e|text-embedding-|text-davinci|text-moderation|omni-moderation|whisper|tts-|davinci|babbage|ft:|codex|sora|computer-use)/.test(
      model,
    )
  )
    return 'openai';
  if (model.startsWith('claude')) return 'anthropic';
  if (/^(gemini|text-bison|chat-bison|textembedding-gecko|imagen)/.test(model)) return 'vertex_ai';
  if (/^(command|embed-english|embed-multilingual|rerank-)/.test(model)) return 'cohere';
  return undefined;
}

/** A text as a regular expression that finds it alone. */
export function escapeRegex(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);
}

/** What stands for the `*` of a pattern in a text; undefined when it does not fit. */
export function capturedBy(pattern: string, text: string): string | undefined {
  return new RegExp(`^${pattern.split('*').map(escapeRegex).join('(.*)')}$`).exec(text)?.[1];
}
