import type { FetchLike } from '@modelcontextprotocol/sdk/shared/transport.js';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { GuardedFetch } from '../../core/ports/transport.ts';

const timeoutMs = 10_000;
const maxBytes = 256 * 1024;
const maxRequestBytes = 64 * 1024;
/** A body with a secret is sent to the address that it is meant for, and to no other. */
const noRedirects = 0;
/** Metadata alone is fetched with `GET`. */
const redirectsOfMetadata = 3;
/** Headers of a `Response` cannot be set on these statuses, which have no body. */
const bodiless = new Set([101, 204, 205, 304]);

/** The guarded fetch in the form of the protocol library, with the status of the last answer. */
export interface BoundedFetch {
  readonly fetch: FetchLike;
  /** 0 without an answer. */
  readonly status: number;
}

/** Requests of one conversation with an authorization server; each is bounded, and none goes to a closed address. */
export function boundedFetch(guarded: GuardedFetch): BoundedFetch {
  let status = 0;
  return {
    get status() {
      return status;
    },
    async fetch(url, init = {}) {
      status = 0;
      const method = init.method ?? 'GET';
      const body = bodyOf(init.body);
      const headers = [...new Headers(init.headers)].flat();
      const { answer } = guarded.fetch({
        url: String(url),
        method,
        headers,
        ...(body !== undefined && { body }),
        timeoutMs,
        maxBytes,
        maxRedirects: method === 'GET' ? redirectsOfMetadata : noRedirects,
      });
      const received = await answer;
      status = received.status;
      if (status < 200 || status > 599)
        throw new GatewayError('fetch_failed', 'The server answers a status that HTTP does not have.');
      return new Response(bodiless.has(status) ? null : new Uint8Array(received.body), { status });
    },
  };
}

function bodyOf(body: RequestInit['body']): Uint8Array | undefined {
  if (body === undefined || body === null) return undefined;
  if (typeof body !== 'string' && !(body instanceof URLSearchParams))
    throw new TypeError('Only texts and forms are sent to authorization servers.');
  const bytes = Buffer.from(String(body), 'utf8');
  if (bytes.length > maxRequestBytes)
    throw new GatewayError('fetch_failed', `The request is larger than ${maxRequestBytes} bytes.`);
  return bytes;
}
