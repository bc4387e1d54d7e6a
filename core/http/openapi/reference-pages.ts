import type { CompiledPipelines } from '../route-table.ts';
import { staticPage, type StaticPage } from '../home-page.ts';
import { buildOpenApi } from './document.ts';
import type { DescribedServer } from './document-writer.ts';
import { renderReference, styleHash } from './render-reference.ts';

/** Description of the serving generation's interface, for programs (`/openapi.json`) and for people (`/docs`). */
export interface ReferencePages {
  document(): StaticPage;
  reading(): StaticPage;
}

interface ServingPipelines {
  readonly compiled: CompiledPipelines;
}

/** Forbids the page to load, send or run anything; allows its one style by the hash. */
const policy = `default-src 'none'; style-src '${styleHash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;

/** Builds both pages at their first request, once for every generation. */
export function createReferencePages(
  server: DescribedServer,
  current: () => ServingPipelines,
): ReferencePages {
  const made = new WeakMap<ServingPipelines, { document: StaticPage; reading: StaticPage }>();
  const pages = () => {
    const generation = current();
    const present = made.get(generation);
    if (present !== undefined) return present;
    const described = buildOpenApi(generation.compiled, server);
    const both = {
      document: staticPage(JSON.stringify(described), { 'content-type': 'application/json' }),
      reading: staticPage(renderReference(described), {
        'content-type': 'text/html; charset=utf-8',
        'content-security-policy': policy,
        'referrer-policy': 'no-referrer',
      }),
    };
    made.set(generation, both);
    return both;
  };
  return { document: () => pages().document, reading: () => pages().reading };
}
