import type { ChatPart } from '../../../core/dialects/canonical/chat-part.ts';
import type { Carried } from './carried-signature.ts';

/** Puts a carried signature where it belongs: on the call that it names, else on the last text. Without one it is for nobody. */
export function attachSignature(parts: ChatPart[], carried: Carried): void {
  if (carried.kind === 'redacted') return;
  const at = parts.findLastIndex((part) =>
    carried.kind === 'call' ? part.type === 'tool-call' && part.id === carried.callId : part.type === 'text',
  );
  const part = parts[at];
  if (part !== undefined) parts[at] = { ...part, signature: carried.signature };
}
