import type { ProviderRow, ProviderTable } from '../core/ports/provider-row.ts';

/**
 * The built-in hosts: one row each, by the name that requests and YAML use. `base_url` + `/chat/completions` (for
 * Anthropic `/messages`, for embedding hosts `/embeddings`) is the address that the vendor documents. Where a
 * vendor runs several regions, a provider in YAML with the name of the row and another `base_url` overrides it.
 */
const rows: Readonly<Record<string, ProviderRow>> = {
  '302ai': { base_url: 'https://api.302.ai/v1' },
  anthropic: {
    dialect: 'anthropic-messages',
    base_url: 'https://api.anthropic.com/v1',
    credentials: 'x-api-key',
    headers: { 'anthropic-version': '2023-06-01' },
    usage_in_stream: 'always',
  },
  baseten: { base_url: 'https://inference.baseten.co/v1' },
  byteplus: { base_url: 'https://ark.ap-southeast.bytepluses.com/api/v3' },
  cerebras: { base_url: 'https://api.cerebras.ai/v1' },
  chutes: { base_url: 'https://llm.chutes.ai/v1' },
  // Cohere's compatibility API.
  cohere: { base_url: 'https://api.cohere.ai/compatibility/v1' },
  cometapi: { base_url: 'https://api.cometapi.com/v1' },
  // The international region; others: dashscope.aliyuncs.com (Beijing), dashscope-us.aliyuncs.com (Virginia).
  dashscope: { base_url: 'https://dashscope-intl.aliyuncs.com/compatible-mode/v1' },
  deepinfra: { base_url: 'https://api.deepinfra.com/v1/openai' },
  // No version path: that is the address that DeepSeek documents.
  deepseek: { base_url: 'https://api.deepseek.com' },
  'featherless-ai': { base_url: 'https://api.featherless.ai/v1' },
  'fireworks-ai': { base_url: 'https://api.fireworks.ai/inference/v1' },
  friendli: { base_url: 'https://api.friendli.ai/serverless/v1' },
  github: { base_url: 'https://models.github.ai/inference' },
  // Gemini's OpenAI compatibility API.
  google: { base_url: 'https://generativelanguage.googleapis.com/v1beta/openai' },
  groq: { base_url: 'https://api.groq.com/openai/v1' },
  huggingface: { base_url: 'https://router.huggingface.co/v1' },
  hyperbolic: { base_url: 'https://api.hyperbolic.xyz/v1' },
  'inference-net': { base_url: 'https://api.inference.net/v1' },
  iointelligence: { base_url: 'https://api.intelligence.io.solutions/api/v1' },
  jina: { base_url: 'https://api.jina.ai/v1' },
  'lemonfox-ai': { base_url: 'https://api.lemonfox.ai/v1' },
  lingyi: { base_url: 'https://api.lingyiwanwu.com/v1' },
  minimax: { base_url: 'https://api.minimax.io/v1' },
  // Mistral refuses `stream_options.include_usage` with 422 and sends usage with the last event anyway.
  'mistral-ai': { base_url: 'https://api.mistral.ai/v1', usage_in_stream: 'always' },
  mock: { base_url: 'mock:', credentials: 'none', usage_in_stream: 'on_request' },
  // The platform in China; the global one has keys of its own: api.moonshot.ai.
  moonshot: { base_url: 'https://api.moonshot.cn/v1' },
  nebius: { base_url: 'https://api.tokenfactory.nebius.com/v1' },
  'novita-ai': { base_url: 'https://api.novita.ai/openai/v1' },
  nscale: { base_url: 'https://inference.api.nscale.com/v1' },
  nvidia: { base_url: 'https://integrate.api.nvidia.com/v1' },
  openai: { base_url: 'https://api.openai.com/v1' },
  openrouter: { base_url: 'https://openrouter.ai/api/v1' },
  ovhcloud: { base_url: 'https://oai.endpoints.kepler.ai.cloud.ovh.net/v1' },
  // Every event of a Perplexity stream carries the usage so far.
  'perplexity-ai': { base_url: 'https://api.perplexity.ai', usage_in_stream: 'always' },
  sambanova: { base_url: 'https://api.sambanova.ai/v1' },
  scaleway: { base_url: 'https://api.scaleway.ai/v1' },
  // The platform in China; the global one has keys of its own: api.siliconflow.com.
  siliconflow: { base_url: 'https://api.siliconflow.cn/v1' },
  'together-ai': { base_url: 'https://api.together.ai/v1' },
  upstage: { base_url: 'https://api.upstage.ai/v1' },
  venice: { base_url: 'https://api.venice.ai/api/v1' },
  voyage: { base_url: 'https://api.voyageai.com/v1' },
  'x-ai': { base_url: 'https://api.x.ai/v1' },
  'z-ai': { base_url: 'https://api.z.ai/api/paas/v4' },
  zhipu: { base_url: 'https://open.bigmodel.cn/api/paas/v4' },
};

/** The built-in hosts by name, sorted. A provider in YAML with the name of a row overrides it. */
export const providerTable: ProviderTable = new Map(Object.entries(rows));
