import type { EndpointId } from './endpoint.ts';

/** How the GenAI conventions of OpenTelemetry call operations, by endpoint; others go by the endpoint's own name. */
const operations: Partial<Record<EndpointId, string>> = {
  'chat.completions': 'chat',
  responses: 'chat',
  messages: 'chat',
  completions: 'text_completion',
  embeddings: 'embeddings',
  'generate-content': 'generate_content',
};

/** The endpoint that an operation of the conventions means most likely. */
const endpoints: Readonly<Record<string, EndpointId>> = {
  chat: 'chat.completions',
  text_completion: 'completions',
  embeddings: 'embeddings',
  generate_content: 'generate-content',
};

/** How the conventions call providers whose name differs from ours, by our name. */
const providers: Readonly<Record<string, string>> = {
  bedrock: 'aws.bedrock',
  'azure-openai': 'azure.ai.openai',
  'azure-ai': 'azure.ai.inference',
  google: 'gcp.gemini',
  'vertex-ai': 'gcp.vertex_ai',
  'mistral-ai': 'mistral_ai',
  'perplexity-ai': 'perplexity',
  'x-ai': 'x_ai',
};

/** The same the other way round, with the names of earlier editions. */
const services: ReadonlyMap<string, string> = new Map([
  ...Object.entries(providers).map(([service, name]) => [name, service] as const),
  ['aws_bedrock', 'bedrock'],
  ['az.ai.openai', 'azure-openai'],
  ['az.ai.inference', 'azure-ai'],
  ['gcp.gen_ai', 'google'],
  ['gemini', 'google'],
  ['vertex_ai', 'vertex-ai'],
  ['xai', 'x-ai'],
]);

/** `gen_ai.operation.name` of an endpoint. */
export function operationName(endpoint: EndpointId): string {
  return operations[endpoint] ?? endpoint;
}

/** The endpoint of a `gen_ai.operation.name`; the operation itself where it is none that the gateway serves. */
export function endpointOfOperation(operation: string): string {
  return Object.hasOwn(endpoints, operation) ? (endpoints[operation] as string) : operation;
}

/** `gen_ai.provider.name` of a kind of provider. */
export function genAiProvider(service: string): string {
  return Object.hasOwn(providers, service) ? (providers[service] as string) : service;
}

/** The kind of provider that a `gen_ai.provider.name` (or the older `gen_ai.system`) means. */
export function serviceOfGenAiProvider(name: string): string {
  const lower = name.toLowerCase();
  return services.get(lower) ?? lower;
}
