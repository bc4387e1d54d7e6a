/** Which version of a record is wanted. */
export type WantedVersion =
  | { readonly kind: 'default' }
  | { readonly kind: 'latest' }
  | { readonly kind: 'number'; readonly number: number }
  /** By the label's name, or by its id. */
  | { readonly kind: 'label'; readonly label: string };

/** What `id`, `slug`, `id@12`, `id@latest` or `id@<label>` names. */
interface PromptReference {
  readonly idOrSlug: string;
  readonly version: WantedVersion;
}

/** What a reference to a prompt may look like. */
export const referencePattern = '^[a-zA-Z0-9_.:-]{1,255}(?:@[^@\\s]{1,255})?$';
const reference = new RegExp(referencePattern);

/** Reads a reference to a prompt or a partial; undefined for what is none. */
export function readReference(text: string): PromptReference | undefined {
  if (!reference.test(text)) return undefined;
  const at = text.indexOf('@');
  if (at === -1) return { idOrSlug: text, version: { kind: 'default' } };
  return { idOrSlug: text.slice(0, at), version: versionOf(text.slice(at + 1)) };
}

function versionOf(said: string): WantedVersion {
  if (said === 'latest') return { kind: 'latest' };
  if (said === 'default') return { kind: 'default' };
  if (!/^\d+$/.test(said)) return { kind: 'label', label: said };
  return { kind: 'number', number: Math.min(Number(said), 2_147_483_647) };
}

/** The slug of the label with this name: names may have one character that slugs have not. */
export function labelSlug(name: string): string {
  return name.replace(/[^a-zA-Z0-9_-]/gu, (one) => `-u${one.codePointAt(0)?.toString(16) ?? ''}-`);
}
