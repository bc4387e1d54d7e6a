import type { RequestFacts } from './facts.ts';

/** Part of an `Exchange` that these headers report. */
interface ToldRequest {
  readonly facts: RequestFacts;
  /** Flat: name, value. */
  readonly responseHeaders: readonly string[];
  /** Further prefixes of the request's own headers, beside the first. */
  readonly aliasRanks: Iterable<number> | undefined;
}

/** Names of one alias that are remembered; plugins choose some of them. */
const maxRemembered = 256;

/** The gateway's own headers of its answers. Their names are made once, not per request. */
export class AnswerHeaders {
  readonly requestId: string;
  readonly traceId: string;
  private readonly provider: string;
  private readonly cacheStatus: string;
  private readonly retries: string;
  private readonly option: string;
  private readonly aliases: readonly AliasSpelling[];

  /** `prefixes` are the gateway's own, each with its dash (`x-service-`), the preferred one first. */
  constructor(prefixes: readonly string[]) {
    const [prefix = ''] = prefixes;
    this.requestId = `${prefix}request-id`;
    this.traceId = `${prefix}trace-id`;
    this.provider = `${prefix}provider`;
    this.cacheStatus = `${prefix}cache-status`;
    this.retries = `${prefix}retry-attempt-count`;
    this.option = `${prefix}last-used-option-index`;
    this.aliases = prefixes.map((alias) => new AliasSpelling(prefix, alias));
  }

  /**
   * Adds the headers of every answer of this request to a list: those that were set for it, then, once a provider has
   * been chosen, its outcome. A request whose own headers came under an alias gets all of them under the alias as well.
   */
  append({ facts, responseHeaders, aliasRanks }: ToldRequest, list: string[]): void {
    const start = list.length;
    const { cacheStatus } = this;
    const isProxied = facts.provider !== '';
    for (let i = 0; i < responseHeaders.length; i += 2) {
      const name = responseHeaders[i] as string;
      // Added once, from the facts: each attempt has its own verdict, and the last one counts.
      if (isProxied && name === cacheStatus) continue;
      list.push(name, responseHeaders[i + 1] as string);
    }
    if (isProxied) {
      list.push(this.provider, facts.provider, cacheStatus, facts.cacheStatus || 'DISABLED');
      list.push(this.retries, String(facts.retries), this.option, facts.option);
    }
    if (aliasRanks === undefined) return;
    const end = list.length;
    for (const rank of aliasRanks) this.aliases[rank]?.repeat(list, start, end);
  }
}

/** The same headers under another prefix. */
class AliasSpelling {
  private readonly prefix: string;
  private readonly alias: string;
  private readonly known = new Map<string, string | undefined>();

  constructor(prefix: string, alias: string) {
    this.prefix = prefix;
    this.alias = alias;
  }

  repeat(list: string[], from: number, to: number): void {
    for (let i = from; i < to; i += 2) {
      const name = this.of(list[i] as string);
      if (name !== undefined) list.push(name, list[i + 1] as string);
    }
  }

  /** Undefined for a name that is not under the gateway's prefix. */
  private of(name: string): string | undefined {
    if (this.known.has(name)) return this.known.get(name);
    const own = name.toLowerCase().startsWith(this.prefix);
    const spelling = own ? this.alias + name.slice(this.prefix.length) : undefined;
    if (this.known.size < maxRemembered) this.known.set(name, spelling);
    return spelling;
  }
}
