/** So many texts are remembered; beyond it the memory starts anew, which costs sharing and nothing else. */
const maxTexts = 100_000;

/** Gives equal texts and equal lists of texts one place in memory. */
export class SharedTexts {
  readonly #texts = new Map<string, string>();
  readonly #lists = new Map<string, readonly string[]>();

  /** The first text that was equal to this one. */
  text(text: string): string {
    const known = this.#texts.get(text);
    if (known !== undefined) return known;
    if (this.#texts.size >= maxTexts) this.#texts.clear();
    this.#texts.set(text, text);
    return text;
  }

  /** The first list that had the same texts in the same order; frozen. */
  list(list: readonly string[]): readonly string[] {
    const key = JSON.stringify(list);
    const known = this.#lists.get(key);
    if (known !== undefined) return known;
    if (this.#lists.size >= maxTexts) this.#lists.clear();
    const shared = Object.freeze(list.map((text) => this.text(text)));
    this.#lists.set(key, shared);
    return shared;
  }
}
