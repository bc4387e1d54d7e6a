/** OpenAI encrypts its reasoning as Fernet tokens, whose first bytes are always these. */
const tokenStart = 'gAAAA';

/**
 * Whether the proof of a thought is OpenAI's own, which no other provider can read. Thoughts of others that went through
 * a Responses client come back as items of that wire, too, so that only the proof itself tells.
 */
export function isOpenAiSignature(signature: string): boolean {
  return signature.startsWith(tokenStart);
}
