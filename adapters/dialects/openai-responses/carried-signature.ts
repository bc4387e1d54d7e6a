/**
 * Responses clients give reasoning items back as they got them, and nothing else that is opaque. What other wires want
 * back beside their thoughts (the signature of a call or of a text, redacted thinking) therefore travels as the
 * encrypted content of a reasoning item that names what it belongs to.
 */
export type Carried =
  /** The signature of the call with this id. */
  | { readonly kind: 'call'; readonly callId: string; readonly signature: string }
  /** The signature of the text before it. */
  | { readonly kind: 'text'; readonly signature: string }
  | { readonly kind: 'redacted'; readonly data: string };

const callMark = 'signature-of-call:';
const textMark = 'signature-of-text:';
const redactedMark = 'redacted-thinking:';

/** The encrypted content that carries it. */
export function encodeCarried(carried: Carried): string {
  switch (carried.kind) {
    case 'call':
      return `${callMark}${encodeURIComponent(carried.callId)}:${carried.signature}`;
    case 'text':
      return textMark + carried.signature;
    case 'redacted':
      return redactedMark + carried.data;
  }
}

/** What an encrypted content carries; undefined when it is a provider's own. */
export function decodeCarried(content: string): Carried | undefined {
  if (content.startsWith(textMark)) return { kind: 'text', signature: content.slice(textMark.length) };
  if (content.startsWith(redactedMark)) return { kind: 'redacted', data: content.slice(redactedMark.length) };
  if (!content.startsWith(callMark)) return undefined;
  const end = content.indexOf(':', callMark.length);
  if (end === -1) return undefined;
  try {
    const callId = decodeURIComponent(content.slice(callMark.length, end));
    return { kind: 'call', callId, signature: content.slice(end + 1) };
  } catch {
    return undefined;
  }
}
