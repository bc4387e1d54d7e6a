import { GatewayError } from '../../../core/errors/gateway-error.ts';
import type { JsonObject } from '../json-reading.ts';

/**
 * Throws `not_supported` for a request that begins or continues a message thread, a conversation that the vendor keeps
 * (https://platform.claude.com/docs/en/build-with-claude/message-threads): of one that goes on, only the new messages come,
 * so another provider would answer without the rest. Clients know the error by its code and send everything again.
 */
export function refuseThread({ thread }: JsonObject): void {
  if (thread === undefined || thread === null) return;
  throw new GatewayError(
    'not_supported',
    'thread asks for a conversation that the provider keeps, and this request goes to one that keeps none. Send all messages in "messages", without "thread".',
    { param: 'thread' },
  );
}

/** The `details` by which clients of this wire know why an error was raised; undefined when they have no word for it. */
export function errorDetails({ code, param }: GatewayError): JsonObject | undefined {
  if (code !== 'not_supported' || param !== 'thread') return undefined;
  return { error_code: 'thread_unsupported_request', unsupported: ['thread'] };
}
