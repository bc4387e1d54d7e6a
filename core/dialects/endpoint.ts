/** Operations identified by paths. `proxy` is any path that the gateway does not model. */
export const endpointIds = [
  'chat.completions',
  'completions',
  'embeddings',
  'moderations',
  'responses',
  'messages',
  'messages.count_tokens',
  'generate-content',
  'rerank',
  'images.generations',
  'images',
  'audio.speech',
  'audio',
  'files',
  'fine_tuning.jobs',
  'batches',
  'models',
  'realtime',
  'mcp',
  'proxy',
] as const;
/** One of these operations. */
export type EndpointId = (typeof endpointIds)[number];

/** The operations that request the next turn of a conversation, each in a dialect of its own; their answers end with a reason, as one document or as a stream. */
export const chatEndpoints: ReadonlySet<EndpointId> = new Set([
  'chat.completions',
  'completions',
  'responses',
  'messages',
  'generate-content',
]);

/** Every wire format, of clients and hosts. */
export type DialectName =
  | 'openai-chat'
  | 'openai-completions'
  | 'openai-responses'
  | 'azure-openai'
  | 'anthropic-messages'
  | 'google-gemini'
  | 'google-vertex'
  | 'bedrock-converse'
  | 'cohere-v2'
  | 'workers-ai';

export interface Endpoint {
  readonly id: EndpointId;
  /** Wire format of the client's requests and errors. */
  readonly dialect: DialectName;
  /** Whether the gateway parses this endpoint's JSON bodies (model, stream, usage). Others are streamed unread. */
  readonly modelled: boolean;
}
