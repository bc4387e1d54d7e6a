import type { RequestContext } from '../../core/pipeline/context.ts';

const longest = 64;
/** Name and version. Letters, digits and what versions are made of; the rest is somebody's joke. */
const product = /^([A-Za-z0-9][A-Za-z0-9._@+-]*)(?:\/([A-Za-z0-9][A-Za-z0-9._+-]*))?/;
const plain = /^[A-Za-z0-9][A-Za-z0-9._+ -]*$/;

/** What the SDKs that Stainless makes call themselves in front of their version: `OpenAI/Python 1.99.0`. */
const stainless =
  /^(?:Async)?([A-Za-z]+)\/(?:JS|Python|Go|Java|Ruby|Kotlin|C#|PHP)?\s*([0-9][A-Za-z0-9._+-]*)?/;

/**
 * Which library made the request, as `openai-python 1.99.0`: from the headers by which it says so, else the first product
 * of `agent`, the user agent (`curl 8.5.0`). Empty when nothing is known. Versions are many, so it is bounded.
 */
export function sdkOf(context: Pick<RequestContext, 'header' | 'service'>, agent: string): string {
  const language = context.header('x-stainless-lang');
  if (language !== undefined && plain.test(language)) {
    const version = context.header('x-stainless-package-version') ?? '';
    const name = stainless.exec(agent)?.[1]?.toLowerCase() ?? 'stainless';
    return joined(`${name}-${language.toLowerCase()}`, plain.test(version) ? version : '');
  }
  const own = context.service('package-version');
  if (own !== undefined && plain.test(own))
    return joined('portkey', own.replace(/^portkey[-_]?(?:ai)?-?/i, ''));
  const [, name = '', version = ''] = product.exec(agent) ?? [];
  return joined(name, version);
}

function joined(name: string, version: string): string {
  return (version === '' ? name : `${name} ${version}`).slice(0, longest);
}
