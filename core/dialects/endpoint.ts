/** The operations that paths name. `proxy` is any path that the gateway does not model. */
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
  'proxy',
] as const;
/** One of them. */
export type EndpointId = (typeof endpointIds)[number];

/** Every wire format, spoken by clients or by hosts. */
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
  /** The wire format in which the client speaks and expects errors. */
  readonly dialect: DialectName;
  /** The gateway reads this endpoint's JSON bodies (model, stream, usage). Others are streamed unread. */
  readonly modelled: boolean;
}
