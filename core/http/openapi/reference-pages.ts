import type { CompiledPipelines } from '../route-table.ts';
import { staticPage, type StaticPage } from '../home-page.ts';
import { buildOpenApi } from './document.ts';
import type { DescribedServer } from './document-writer.ts';
import { renderReference, styleHash } from './render-reference.ts';

/** The interface of the generation that serves, for programs (`/openapi.json`) and for people (`/docs`). */
export interface ReferencePages {
  document(): StaticPage;
  reading(): StaticPage;
}

interface ServingPipelines {
  readonly compiled: CompiledPipelines;
}

/** Nothing is loaded, sent or run: the one style is known by its hash. */
const policy = `default-src 'none'; style-src '${styleHash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;

/** Makes both pages when they are first asked for, once for every generation. */
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
