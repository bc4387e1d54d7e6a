/**
 * Attributes of a span as the JSON of OTLP, written as text: this runs for every request that is sent. Values that say
 * nothing (empty texts, numbers that are none) are left out; 64-bit numbers are texts, as the mapping of protocol buffers
 * has it.
 */
export class Attributes {
  private text = '';

  string(key: string, value: string): this {
    if (value !== '') this.add(key, `{"stringValue":${JSON.stringify(value)}}`);
    return this;
  }

  /** Only when it is above zero. */
  count(key: string, value: number): this {
    if (value > 0) this.integer(key, value);
    return this;
  }

  integer(key: string, value: number): this {
    if (Number.isFinite(value)) this.add(key, `{"intValue":"${Math.trunc(value)}"}`);
    return this;
  }

  number(key: string, value: number): this {
    if (Number.isFinite(value)) this.add(key, `{"doubleValue":${value}}`);
    return this;
  }

  /** Only when it is true. */
  flag(key: string, value: boolean): this {
    if (value) this.add(key, '{"boolValue":true}');
    return this;
  }

  strings(key: string, values: readonly string[]): this {
    if (values.length === 0) return this;
    const list = values.map((value) => `{"stringValue":${JSON.stringify(value)}}`).join(',');
    this.add(key, `{"arrayValue":{"values":[${list}]}}`);
    return this;
  }

  /** The list, as JSON. */
  get json(): string {
    return `[${this.text}]`;
  }

  /** Keys are ours, or have been checked: they need no escape. */
  private add(key: string, value: string): void {
    this.text += `${this.text === '' ? '' : ','}{"key":"${key}","value":${value}}`;
  }
}
