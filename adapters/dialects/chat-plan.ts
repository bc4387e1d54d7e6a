import type { ChatProviderCodec } from '../../core/dialects/canonical/chat-codec.ts';
import type { EndpointId } from '../../core/dialects/endpoint.ts';
import type { UpstreamCallFacts, UpstreamPlan } from '../../core/dialects/upstream-plan.ts';

/** The operations that ask for the next turn of a conversation, each in a dialect of its own. */
export const chatEndpoints: ReadonlySet<EndpointId> = new Set([
  'chat.completions',
  'completions',
  'responses',
  'messages',
  'generate-content',
]);

/** The very bytes to the same path below the host's base URL. */
export function passOn(call: UpstreamCallFacts): UpstreamPlan {
  return { kind: 'pass', path: call.path + call.query };
}

/** Through the canonical form for what is chat in another dialect; undefined for everything else. */
export function translated(call: UpstreamCallFacts, codec: ChatProviderCodec): UpstreamPlan | undefined {
  return chatEndpoints.has(call.endpoint) ? { kind: 'chat', codec } : undefined;
}

/** The host has no such operation. */
export function refused(call: UpstreamCallFacts, operation: string): UpstreamPlan {
  return {
    kind: 'refuse',
    message: `The provider "${call.host.provider}" has no ${operation}. Send the request to one that has it.`,
  };
}
