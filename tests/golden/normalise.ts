const idName = /^(?:id|.*_id|.*Id|toolUseId|id_)$/;
const timeName = /^(?:created|created_at|completed_at|createTime)$/;

const address = /127\.0\.0\.1:\d+/g;

/**
 * Makes what the gateway invents stable: ids and times that stand neither in the client's request nor in the provider's
 * answer (`known`) become `<id 1>`, `<id 2>` … in the order of their first appearance, and `<time>`; the address of a provider becomes `<provider>`. One per transcript,
 * so that the same id has the same number on both sides.
 */
export class Normaliser {
  readonly #known: string;
  readonly #ids = new Map<string, string>();

  constructor(known: string) {
    this.#known = known;
  }

  value(value: unknown, name = ''): unknown {
    if (Array.isArray(value)) return value.map((one) => this.value(one, name));
    if (typeof value === 'object' && value !== null) {
      return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, this.value(one, key)]));
    }
    if (timeName.test(name) && typeof value === 'number') {
      return this.#known.includes(String(value)) ? value : '<time>';
    }
    if (typeof value !== 'string') return value;
    return idName.test(name) ? this.#id(value) : this.#text(value);
  }

  /** Ids may stand within other texts, too. */
  #text(value: string): string {
    let text = value.replace(address, '<provider>');
    for (const [id, shown] of this.#ids) text = text.replaceAll(id, shown);
    return text;
  }

  #id(value: string): string {
    if (value === '' || this.#known.includes(value)) return value;
    let shown = this.#ids.get(value);
    if (shown === undefined) {
      shown = `<id ${this.#ids.size + 1}>`;
      this.#ids.set(value, shown);
    }
    return shown;
  }
}
