import type { AnsweredRequest, EncodedRequest } from '../dialects/canonical/chat-codec.ts';
import type { DialectName } from '../dialects/endpoint.ts';
import type { UpstreamCallFacts } from '../dialects/upstream-plan.ts';
import type { HeaderList } from './header-list.ts';

/** A chat request and the wire that its target speaks. Plain values: they go to another thread. */
export interface LargeChat {
  /** A JSON object. */
  readonly body: Buffer;
  readonly call: UpstreamCallFacts;
  readonly target: DialectName;
  /** As the client sent them. */
  readonly headers: HeaderList;
}

/** The request in its target's wire. */
export interface EncodedChat {
  readonly encoded: EncodedRequest;
  /** What answers are read and written with. */
  readonly request: AnsweredRequest;
  /** As in `EncodeReport`. */
  readonly dropped: readonly string[];
  readonly emulated: readonly string[];
}

/** Puts large chat requests into their targets' wires while others are served. */
export interface LargeTranslation {
  /**
   * One after the other. Rejects with the GatewayError that the codecs throw, and with another error when there is no
   * thread to do it.
   */
  encode(chat: LargeChat): Promise<EncodedChat>;
  close(): Promise<void>;
}
