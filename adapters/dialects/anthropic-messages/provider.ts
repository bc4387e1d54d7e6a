import type { ChatProviderCodec } from '../../../core/dialects/canonical/chat-codec.ts';
import { decodeAnswer } from './decode-answer.ts';
import { decodeError } from './decode-error.ts';
import { encodeRequest, type AnthropicHostForm } from './encode-request.ts';
import { MessageEventReader } from './event-reader.ts';

/** The Messages wire as hosts speak it, at the address and with the body that `form` tells. */
export function createAnthropicProvider(form: AnthropicHostForm): ChatProviderCodec {
  return {
    encodeRequest: (request, host, report) => encodeRequest(request, host, report, form),
    decodeAnswer,
    eventReader: (contentType, context) => new MessageEventReader(contentType, context),
    decodeError,
  };
}

/** The Messages wire as Anthropic speaks it, below a base URL that ends in the version. */
export const anthropicProvider: ChatProviderCodec = createAnthropicProvider({ path: '/messages' });
