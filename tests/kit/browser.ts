/** A browser without a window: cookies, redirects and forms, for sign-in pages in tests. */
import assert from 'node:assert/strict';

interface Cookie {
  readonly value: string;
  readonly path: string;
}

/** A page that is shown. */
interface Page {
  readonly url: string;
  readonly status: number;
  readonly headers: Headers;
  readonly html: string;
}

/** Where a walk ended: at a page, or at an address that the browser was told not to open. */
type End = { readonly page: Page } | { readonly left: URL };

const mostSteps = 20;

/** One user's browser. As in a real one, ports of a host share their cookies. */
export class Browser {
  readonly #cookies = new Map<string, Cookie>();
  readonly #stopsAt: readonly string[];

  /** Redirects to addresses that begin like one of these are not followed: applications wait there. */
  constructor(...stopsAt: readonly string[]) {
    this.#stopsAt = stopsAt;
  }

  /** Another browser with the same cookies, which stops at other addresses. */
  copy(...stopsAt: readonly string[]): Browser {
    const copy = new Browser(...stopsAt);
    for (const [name, cookie] of this.#cookies) copy.#cookies.set(name, cookie);
    return copy;
  }

  /** Opens an address and follows redirects. */
  async open(url: string | URL, init: RequestInit = {}): Promise<End> {
    let next: string | URL = url;
    let sent = init;
    for (let step = 0; step < mostSteps; step++) {
      const address = String(next);
      const headers = { ...this.#cookiesFor(new URL(address)), ...sent.headers };
      const response = await fetch(address, { ...sent, headers, redirect: 'manual' });
      this.#keep(new URL(address), response);
      const location = response.headers.get('location');
      if (response.status < 300 || response.status > 399 || location === null) {
        const { status, headers: answered } = response;
        return { page: { url: address, status, headers: answered, html: await response.text() } };
      }
      await response.body?.cancel();
      next = new URL(location, address).href;
      if (this.#stopsAt.some((start) => String(next).startsWith(start))) return { left: new URL(next) };
      sent = {};
    }
    return assert.fail(`more than ${mostSteps} redirects from ${String(url)}`);
  }

  /** Submits the only form of a page, with these values beside its hidden ones. */
  submit(page: Page, values: Readonly<Record<string, string>> = {}): Promise<End> {
    const form = formOf(page);
    assert.ok(form, `no form at ${page.url}: ${page.status} ${page.html.slice(0, 2000)}`);
    return this.open(form.action, {
      method: 'POST',
      body: new URLSearchParams({ ...form.hidden, ...values }),
    });
  }

  /**
   * Opens an address, and says yes to all that it is asked: gives a name, agrees. Ends where an application waits, or at a
   * page without a form.
   */
  async agree(url: string | URL): Promise<End> {
    let end = await this.open(url);
    for (let step = 0; step < mostSteps; step++) {
      if ('left' in end || formOf(end.page) === undefined) return end;
      end = await this.submit(end.page, { login: 'ada', password: 'any', decision: 'allow' });
    }
    return assert.fail(`more than ${mostSteps} forms from ${String(url)}`);
  }

  #cookiesFor({ hostname, pathname }: URL): Record<string, string> {
    const sent: string[] = [];
    for (const [key, { value, path }] of this.#cookies) {
      const [host, name] = key.split(' ');
      const isBelow = pathname === path || pathname.startsWith(path.endsWith('/') ? path : `${path}/`);
      if (host === hostname && isBelow) sent.push(`${name}=${value}`);
    }
    return sent.length === 0 ? {} : { cookie: sent.join('; ') };
  }

  #keep({ hostname }: URL, response: Response): void {
    for (const line of response.headers.getSetCookie()) {
      const [pair = '', ...attributes] = line.split(';').map((part) => part.trim());
      const at = pair.indexOf('=');
      const [name, value] = [pair.slice(0, at), pair.slice(at + 1)];
      const attribute = (wanted: string): string | undefined =>
        attributes.find((one) => one.toLowerCase().startsWith(`${wanted}=`))?.slice(wanted.length + 1);
      const expires = attribute('expires');
      const isGone =
        attribute('max-age') === '0' || (expires !== undefined && Date.parse(expires) < Date.now());
      const key = `${hostname} ${name}`;
      if (isGone) this.#cookies.delete(key);
      else this.#cookies.set(key, { value, path: attribute('path') ?? '/' });
    }
  }
}

/** The address and the hidden fields of a page's form. */
function formOf({ html, url }: Page): { action: string; hidden: Record<string, string> } | undefined {
  const form = /<form\b[^>]*>[\s\S]*?<\/form>/.exec(html)?.[0];
  if (form === undefined) return undefined;
  const hidden: Record<string, string> = {};
  for (const [input] of form.matchAll(/<input\b[^>]*>/g)) {
    const name = attributeOf(input, 'name');
    if (attributeOf(input, 'type') === 'hidden' && name !== undefined)
      hidden[name] = attributeOf(input, 'value') ?? '';
  }
  return { action: new URL(attributeOf(form, 'action') ?? '', url).href, hidden };
}

function attributeOf(tag: string, name: string): string | undefined {
  const value = new RegExp(`\\b${name}="([^"]*)"`).exec(tag)?.[1];
  return value?.replace(/&(amp|quot|lt|gt|#39);/g, (_whole, entity: string) => entities[entity] ?? '');
}

const entities: Readonly<Record<string, string>> = { amp: '&', quot: '"', lt: '<', gt: '>', '#39': "'" };
