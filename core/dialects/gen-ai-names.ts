import type { EndpointId } from './endpoint.ts';

/** Operation names of OpenTelemetry's GenAI conventions, by endpoint; others use the endpoint's own name. */
const operations: Partial<Record<EndpointId, string>> = {
  'chat.completions': 'chat',
  responses: 'chat',
  messages: 'chat',
  completions: 'text_completion',
  embeddings: 'embeddings',
  'generate-content': 'generate_content',
};

/** Most probable endpoint of an operation of the conventions. */
const endpoints: Readonly<Record<string, EndpointId>> = {
  chat: 'chat.completions',
  text_completion: 'completions',
  embeddings: 'embeddings',
  generate_content: 'generate-content',
};

/** Provider names of the conventions that differ from ours, by our name. */
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

/** The inverse, including the names of earlier editions. */
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

/** `gen_ai.operation.name` of an endpoint; of a request to an MCP server by its operation there. */
function operationName(endpoint: EndpointId, operation: string): string {
  if (operation === 'mcp.tools.call') return 'execute_tool';
  return operation || (operations[endpoint] ?? endpoint);
}

/** Endpoint of a `gen_ai.operation.name`; the operation itself when the gateway has none. */
function endpointOfOperation(operation: string): string {
  return Object.hasOwn(endpoints, operation) ? (endpoints[operation] as string) : operation;
}

/** `gen_ai.provider.name` of a kind of provider. */
function genAiProvider(service: string): string {
  return Object.hasOwn(providers, service) ? (providers[service] as string) : service;
}

/** Kind of provider of a `gen_ai.provider.name` (or the older `gen_ai.system`). */
function serviceOfGenAiProvider(name: string): string {
  const lower = name.toLowerCase();
  return services.get(lower) ?? lower;
}

/** Names of OpenTelemetry's GenAI conventions from ours (`operation`, `provider`), and ours from them (`endpoint`, `service`). */
export const genAiNames = {
  operation: operationName,
  endpoint: endpointOfOperation,
  provider: genAiProvider,
  service: serviceOfGenAiProvider,
};
