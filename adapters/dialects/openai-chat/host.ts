import type { ProviderDialect } from '../../../core/dialects/dialect.ts';
import type { UpstreamCallFacts, UpstreamPlan } from '../../../core/dialects/upstream-plan.ts';
import { refusedPlan, translated } from '../host-endpoints.ts';
import { chatEdits, encodeRequest } from './encode-request.ts';
import type { ChatProviderCodec } from '../../../core/dialects/canonical/chat-codec.ts';
import { decodeOpenAiError } from '../openai-shapes.ts';
import { createEventReader, decodeAnswer } from './decode-answer.ts';

/** Chat completions on the provider side. */
export const openAiChatProvider: ChatProviderCodec = {
  encodeRequest,
  decodeAnswer,
  eventReader: createEventReader,
  decodeError: decodeOpenAiError,
};

/** Hosts of the OpenAI wire: their own endpoints pass unchanged, conversations in another dialect are translated. */
export const openAiChatHost: ProviderDialect = {
  name: 'openai-chat',
  plan(call) {
    switch (call.endpoint) {
      case 'chat.completions':
        return passChat(call);
      case 'messages.count_tokens':
        // Counted in Anthropic's shape, or not at all: OpenAI's wire has no token count for a chat.
        return call.host.quirks.paths?.[call.endpoint] === undefined
          ? refusedPlan(call, 'counting of tokens')
          : passAt(call);
      case 'completions':
        return passAt(call);
      default:
        return translated(call, openAiChatProvider) ?? passAt(call);
    }
  },
};

/** Passes the bytes unchanged except for edits that the row or the model requires. */
function passChat(call: UpstreamCallFacts): UpstreamPlan {
  const plan = passAt(call);
  const edit = chatEdits(call.host);
  return edit === undefined || plan.kind !== 'pass' ? plan : { ...plan, edit };
}

/** Passes to the row's path for the operation, else to the same path. */
function passAt(call: UpstreamCallFacts): UpstreamPlan {
  const path = call.host.quirks.paths?.[call.endpoint];
  // Cohere's path is the same operation here.
  const own = call.endpoint === 'rerank' ? call.path.replace(/^\/v2(?=\/)/, '') : call.path;
  return { kind: 'pass', path: (path ?? own) + call.query };
}
