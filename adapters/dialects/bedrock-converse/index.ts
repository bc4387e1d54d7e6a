import type { ChatClientCodec, ChatProviderCodec } from '../../../core/dialects/canonical/chat-codec.ts';
import type { ProviderDialect } from '../../../core/dialects/dialect.ts';
import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import { countTokensOperation, passOn, refused, translated } from '../host-endpoints.ts';
import { bedrockTokenCounting, embeddingsOperation, imagesOperation, rerankOperation } from './operations.ts';
import { decodeConverse } from './decode-answer.ts';
import { decodeBedrockError } from './errors.ts';
import { encodeConverse } from './encode-request.ts';
import { ConverseEventReader } from './event-reader.ts';

/** Chat by Bedrock's `Converse` and `ConverseStream`. The base URL is the host's root; requests are signed after encoding. */
export const bedrockConverseProvider: ChatProviderCodec = {
  encodeRequest: encodeConverse,
  decodeAnswer: decodeConverse,
  eventReader: (contentType, context) => new ConverseEventReader(contentType, context),
  decodeError: decodeBedrockError,
};

/** What clients ask for in OpenAI's shape and no model of Bedrock has. */
const missing: ReadonlyMap<EndpointId, string> = new Map([
  ['moderations', 'moderations'],
  ['audio.speech', 'speech'],
  ['audio', 'transcriptions'],
  ['images', 'image edits and variations'],
  ['files', 'files'],
  ['fine_tuning.jobs', 'fine-tuning jobs'],
  ['batches', 'batches'],
  ['models', 'list of models'],
]);

/** What the host needs of other wires. */
interface BedrockConverseParts {
  /** Reads the body of `messages/count_tokens`. */
  readonly anthropicClient: ChatClientCodec;
}

/** A host of Bedrock's runtime. Paths that the gateway does not model (`/model/{id}/invoke`) pass as they are. */
export function createBedrockConverseHost({ anthropicClient }: BedrockConverseParts): ProviderDialect {
  const operations = new Map([
    ['messages.count_tokens', countTokensOperation(anthropicClient, bedrockTokenCounting)],
    ['embeddings', embeddingsOperation],
    ['images.generations', imagesOperation],
    ['rerank', rerankOperation],
  ]);
  return {
    name: 'bedrock-converse',
    plan(call) {
      const chat = translated(call, bedrockConverseProvider);
      if (chat !== undefined) return chat;
      const codec = operations.get(call.endpoint);
      if (codec !== undefined) return { kind: 'operation', codec };
      const operation = missing.get(call.endpoint);
      return operation === undefined ? passOn(call) : refused(call, operation);
    },
  };
}
