import type { AnsweredRequest, EncodedRequest } from '../dialects/canonical/chat-codec.ts';
import type { DialectName } from '../dialects/endpoint.ts';
import type { UpstreamCallFacts } from '../dialects/upstream-plan.ts';
import type { HeaderList } from './header-list.ts';

/** A chat request and the dialect of its target. Plain values, because they go to another thread. */
export interface LargeChat {
  /** A JSON object. */
  readonly body: Buffer;
  readonly call: UpstreamCallFacts;
  readonly target: DialectName;
  /** As the client sent them. */
  readonly headers: HeaderList;
}

/** The request in its target's dialect. */
export interface EncodedChat {
  readonly encoded: EncodedRequest;
  /** Facts for the translation of its answers. */
  readonly request: AnsweredRequest;
  /** As in `EncodeReport`. */
  readonly dropped: readonly string[];
  readonly emulated: readonly string[];
}

/** Translates large chat requests on another thread, so that they do not block other requests. */
export interface LargeTranslation {
  /**
   * Translates one request at a time. Rejects with the GatewayError that the codecs throw, and with another error when
   * the thread is not available.
   */
  encode(chat: LargeChat): Promise<EncodedChat>;
  close(): Promise<void>;
}
