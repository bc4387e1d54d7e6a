import { createHash } from 'node:crypto';
import type { CompiledPipelines } from '../serving.ts';
import { buildOpenApi } from './document.ts';
import type { DescribedServer } from './document-writer.ts';
import { renderReference } from './render-reference.ts';
import { styleHash } from './reference-style.ts';

/** A page that is served as it stands. */
export interface ReferencePage {
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** The interface of the generation that serves, for programs (`/openapi.json`) and for people (`/docs`). */
export interface ReferencePages {
  document(): ReferencePage;
  reading(): ReferencePage;
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
  const made = new WeakMap<ServingPipelines, { document: ReferencePage; reading: ReferencePage }>();
  const pages = () => {
    const generation = current();
    const present = made.get(generation);
    if (present !== undefined) return present;
    const described = buildOpenApi(generation.compiled, server);
    const both = {
      document: page(JSON.stringify(described), { 'content-type': 'application/json' }),
      reading: page(renderReference(described), {
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

/** Clients keep a page and ask each time whether it is still the one. */
function page(body: string, headers: Readonly<Record<string, string>>): ReferencePage {
  const etag = `"${createHash('sha256').update(body).digest('base64url').slice(0, 32)}"`;
  return {
    body,
    headers: { ...headers, etag, 'cache-control': 'no-cache', 'x-content-type-options': 'nosniff' },
  };
}

/** Whether the client has this very page already (`If-None-Match`). */
export function isPresent(ifNoneMatch: string | undefined, etag: string | undefined): boolean {
  if (ifNoneMatch === undefined || etag === undefined) return false;
  const known = ifNoneMatch.split(',').map((one) => one.trim().replace(/^W\//, ''));
  return known.includes('*') || known.includes(etag);
}
