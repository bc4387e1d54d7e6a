import { isLoopbackAddress, isLoopbackHost } from '../../core/base/host-rules.ts';
import { GatewayError, type RequestContext, type Scope } from '../../core/pipeline/plugin.ts';
import type { McpOptions } from './options.ts';

/**
 * Refuses requests that a web page of another origin makes. A page whose name its owner lets lead to this machine (DNS
 * rebinding) is such a page, too: its requests keep the page's name in `Origin` and `Host`.
 */
export class Origins {
  readonly #allowed: ReadonlySet<string>;
  readonly #publicHost: string | undefined;

  constructor({ allowed_origins: own = [] }: McpOptions, { publicUrl }: Pick<Scope, 'publicUrl'>) {
    const known = publicUrl === undefined ? undefined : new URL(publicUrl);
    this.#publicHost = known?.host;
    this.#allowed = new Set([...own.map((one) => one.toLowerCase()), ...(known ? [known.origin] : [])]);
  }

  /** Throws `origin_refused`. */
  admit(context: RequestContext): void {
    const host = context.header('host') ?? '';
    const origin = context.header('origin')?.toLowerCase();
    if (origin !== undefined && !this.#allowed.has(origin) && !isOwn(origin, host)) {
      throw new GatewayError(
        'origin_refused',
        `Web pages of the origin ${JSON.stringify(origin.slice(0, 128))} may not call MCP servers. Name it in allowed_origins of the plugin mcp.`,
      );
    }
    // A client on this machine names this machine; a page that was led here names its own host.
    const isPage = origin === undefined && context.header('sec-fetch-site') !== undefined;
    if (!isPage || isLoopbackHost(host) || host === this.#publicHost) return;
    if (isLoopbackAddress(context.remoteAddress)) {
      throw new GatewayError(
        'origin_refused',
        `The Host ${JSON.stringify(host.slice(0, 128))} is not this gateway. Set server.public_url to the address under which it is reached.`,
      );
    }
  }
}

/** A page that this gateway itself serves on this machine. */
function isOwn(origin: string, host: string): boolean {
  return (
    isLoopbackHost(host) &&
    (origin === `http://${host.toLowerCase()}` || origin === `https://${host.toLowerCase()}`)
  );
}
