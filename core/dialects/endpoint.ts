/** The operation that a path names. `proxy` is any path that the gateway does not model. */
export type EndpointId =
  | 'chat.completions'
  | 'completions'
  | 'embeddings'
  | 'moderations'
  | 'responses'
  | 'messages'
  | 'rerank'
  | 'images'
  | 'audio'
  | 'files'
  | 'fine_tuning.jobs'
  | 'batches'
  | 'models'
  | 'proxy';

export type DialectName = 'openai-chat' | 'openai-responses' | 'anthropic-messages';

export interface Endpoint {
  readonly id: EndpointId;
  /** The wire format in which the client speaks and expects errors. */
  readonly dialect: DialectName;
  /** The gateway reads this endpoint's JSON bodies (model, stream, usage). Others are streamed unread. */
  readonly modelled: boolean;
}
