import type { ProviderDialect } from '../../../core/dialects/dialect.ts';
import type { UpstreamCallFacts, UpstreamPlan } from '../../../core/dialects/upstream-plan.ts';
import { refused, translated } from '../host-endpoints.ts';
import { chatEdits, encodeRequest } from './encode-request.ts';
import type { ChatProviderCodec } from '../../../core/dialects/canonical/chat-codec.ts';
import { decodeOpenAiError } from '../openai-shapes.ts';
import { createEventReader, decodeAnswer } from './decode-answer.ts';

/** Chat completions as the gateway speaks them to hosts. */
export const openAiChatProvider: ChatProviderCodec = {
  encodeRequest,
  decodeAnswer,
  eventReader: createEventReader,
  decodeError: decodeOpenAiError,
};

/** Hosts of the OpenAI wire: their own endpoints travel as they are, conversations in another dialect are translated. */
export const openAiChatHost: ProviderDialect = {
  name: 'openai-chat',
  plan(call) {
    switch (call.endpoint) {
      case 'chat.completions':
        return passChat(call);
      case 'messages.count_tokens':
        // Counted in Anthropic's shape, or not at all: OpenAI's wire has no chat that only counts.
        return call.host.quirks.paths?.[call.endpoint] === undefined
          ? refused(call, 'counting of tokens')
          : passAt(call);
      case 'completions':
        return passAt(call);
      default:
        return translated(call, openAiChatProvider) ?? passAt(call);
    }
  },
};

/** The very bytes, but for what the row or the model wants otherwise. */
function passChat(call: UpstreamCallFacts): UpstreamPlan {
  const plan = passAt(call);
  const edit = chatEdits(call.host);
  return edit === undefined || plan.kind !== 'pass' ? plan : { ...plan, edit };
}

/** To the path that the row gives to the operation, else to the same. */
function passAt(call: UpstreamCallFacts): UpstreamPlan {
  const path = call.host.quirks.paths?.[call.endpoint];
  // Cohere's path for it is no other operation here.
  const own = call.endpoint === 'rerank' ? call.path.replace(/^\/v2(?=\/)/, '') : call.path;
  return { kind: 'pass', path: (path ?? own) + call.query };
}
