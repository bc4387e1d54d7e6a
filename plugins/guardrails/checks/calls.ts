/** Checks that ask a server: webhooks, an operator's log, tokens, and URLs that must answer. */
import { lookup } from 'node:dns/promises';
import { isPublicAddress } from '../../../core/base/host-rules.ts';
import { isJsonObject, parseJson, writeJson } from '../../../core/base/json.ts';
import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { type TokenAlgorithm, tokenAlgorithms } from '../../../core/ports/oauth.ts';
import type { GuardedAnswer, GuardedRequest } from '../../../core/ports/transport.ts';
import {
  type AnyCheck,
  type CheckSubject,
  defineCheck,
  failed,
  type JsonObject,
  type JsonValue,
  type OptionFault,
  passed,
  type Scope,
  skipped,
  Type,
  verdictOf,
} from '../../../core/pipeline/plugin.ts';
import { inTurns, Not, strict, Timeout, viewsOfAll } from './shared.ts';

/** Bytes of an answer that are read. */
export const mostBytes = 1_048_576;

/** Fetches within the check's own time limit. */
export async function fetchWithin(
  { guardedFetch }: Scope,
  signal: AbortSignal,
  request: GuardedRequest,
): Promise<GuardedAnswer> {
  signal.throwIfAborted();
  const { answer, abort } = guardedFetch.fetch(request);
  signal.addEventListener('abort', abort);
  try {
    return await answer;
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

const Url = (description: string) =>
  Type.String({ minLength: 1, maxLength: 4096, pattern: '^[hH][tT][tT][pP][sS]?://[^\\s]+$', description });

const Headers = Type.Optional(
  Type.Union(
    [
      Type.Record(Type.String(), Type.String({ maxLength: 8192 }), { maxProperties: 100 }),
      Type.String({ maxLength: 65_536 }),
    ],
    {
      description: 'Headers of the request: an object, or the same as JSON.',
    },
  ),
);
type GivenHeaders = Readonly<Record<string, string>> | string | undefined;

const headerName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const headerText = /^[\t\x20-\x7e\x80-\xff]*$/;
/** Headers that the gateway sets itself. */
const ownHeaders = new Set(['host', 'content-length', 'content-type', 'transfer-encoding', 'connection']);

/** The headers as names and values in turn, or their fault. */
function headersOf(given: GivenHeaders): readonly string[] | string {
  if (given === undefined || given === '') return [];
  const headers = typeof given === 'string' ? parseJson(given) : given;
  if (!isJsonObject(headers)) return 'is no JSON object; write {"name":"value"}';
  const list: string[] = [];
  for (const [name, value] of Object.entries(headers)) {
    if (!headerName.test(name))
      return `has ${JSON.stringify(name.slice(0, 100))}, which is no name of a header`;
    if (typeof value !== 'string' || !headerText.test(value))
      return `has a value for "${name}" that is no header`;
    if (!ownHeaders.has(name.toLowerCase())) list.push(name, value);
  }
  return list;
}

function headerFaults(headers: GivenHeaders): readonly OptionFault[] {
  const found = headersOf(headers);
  return typeof found === 'string' ? [{ path: '/headers', message: found }] : [];
}

/** Names of the operations in existing webhooks. */
const requestTypes: Partial<Record<EndpointId, string>> = {
  'chat.completions': 'chatComplete',
  completions: 'complete',
  embeddings: 'embed',
  responses: 'createModelResponse',
};

/** Body that is sent to a webhook about a request or an answer, without the client's headers. */
function bodyFor({ phase, json, text, provider, endpoint, metadata, model }: CheckSubject): Buffer {
  const judged = { json: json ?? null, text };
  const isInput = phase === 'input';
  return Buffer.from(
    writeJson({
      eventType: isInput ? 'beforeRequestHook' : 'afterRequestHook',
      request: isInput ? judged : { json: { model }, text: '' },
      response: isInput ? { json: null, text: '', statusCode: null } : { ...judged, statusCode: 200 },
      provider: provider.replace(/^@/, ''),
      requestType: requestTypes[endpoint] ?? endpoint,
      metadata,
    }),
  );
}

const LogParameters = { headers: Headers, timeout: Timeout(3000) };

/** A poster of subjects to one address. */
function poster(scope: Scope, url: string, headers: GivenHeaders, timeoutMs: number) {
  const own = headersOf(headers);
  if (typeof own === 'string') throw new Error(`The parameter headers ${own}.`);
  const sent = ['content-type', 'application/json', 'accept', 'application/json', ...own];
  return (subject: CheckSubject): Promise<GuardedAnswer> =>
    fetchWithin(scope, subject.signal, {
      url,
      method: 'POST',
      headers: sent,
      body: bodyFor(subject),
      timeoutMs,
      maxBytes: mostBytes,
      maxRedirects: 0,
    });
}

/** Reason of a failure, without the words of a server. */
function reasonOf(error: unknown): string {
  return GatewayError.is(error) || error instanceof NoVerdict ? error.message : 'It could not be reached.';
}

/** The answer of a webhook contains no verdict. */
class NoVerdict extends Error {}

/** Applies the changes of a webhook to the subject: top-level members that it adds or replaces. */
function transform(subject: CheckSubject, answer: JsonObject): boolean {
  const data = answer['transformedData'];
  const part = isJsonObject(data) ? data[subject.phase === 'input' ? 'request' : 'response'] : undefined;
  const changed = isJsonObject(part) ? part['json'] : undefined;
  const { json } = subject;
  if (!isJsonObject(changed) || !isJsonObject(json)) return false;
  let isChanged = false;
  for (const [name, value] of Object.entries(changed)) {
    if (Object.hasOwn(json, name) && writeJson(json[name]) === writeJson(value)) continue;
    subject.set([name], value);
    isChanged = true;
  }
  return isChanged;
}

const webhook = defineCheck({
  id: 'default.webhook',
  description:
    'Calls a webhook: POSTs `{eventType, request, response, provider, requestType, metadata}`, without the headers of the client, and takes the verdict from its answer: `{"verdict": true}` passes. `transformedData.request.json` of the answer (`transformedData.response.json` of an answer) replaces or adds members at the top of the JSON.',
  phases: ['input', 'output'],
  changes: true,
  timeoutMs: 60_000,
  schema: Type.Object(
    {
      webhookURL: Url('URL; only public addresses and `security.trusted_hosts`.'),
      ...LogParameters,
      failOnError: Type.Optional(
        Type.Boolean({
          default: false,
          description: 'Fail when the webhook gives no verdict in time. Default: `on_error` decides.',
        }),
      ),
    },
    strict,
  ),
  check: ({ headers }) => headerFaults(headers),
  create({ webhookURL, headers, timeout = 3000, failOnError = false }, scope) {
    const post = poster(scope, webhookURL, headers, timeout);
    return async (subject) => {
      try {
        const { status, body } = await post(subject);
        if (status < 200 || status > 299) throw new NoVerdict(`The webhook answered with status ${status}.`);
        const answer = parseJson(body.toString('utf8'));
        const said = isJsonObject(answer) ? answer['verdict'] : undefined;
        if (!isJsonObject(answer) || typeof said !== 'boolean')
          throw new NoVerdict('The webhook answered without a "verdict" that is true or false.');
        const isChanged = transform(subject, answer);
        const explanation = `The webhook says ${said ? 'yes' : 'no'}${isChanged ? ', and changed something' : ''}.`;
        return verdictOf(said, false, { explanation, webhook: answer['data'] ?? null });
      } catch (error) {
        if (!failOnError) throw error;
        return failed({ explanation: `The webhook gave no verdict. ${reasonOf(error)}` });
      }
    };
  },
});

const log = defineCheck({
  id: 'default.log',
  description: 'POSTs the same data as the webhook check to a log of your own. Always passes.',
  phases: ['input', 'output'],
  timeoutMs: 60_000,
  schema: Type.Object(
    { logURL: Url('URL of the log; only public addresses and `security.trusted_hosts`.'), ...LogParameters },
    strict,
  ),
  check: ({ headers }) => headerFaults(headers),
  create({ logURL, headers, timeout = 3000 }, scope) {
    const post = poster(scope, logURL, headers, timeout);
    return async (subject) => {
      try {
        const { status } = await post(subject);
        return passed({ explanation: `The log answered with status ${status}.` });
      } catch (error) {
        return passed({ explanation: `The log could not be written. ${reasonOf(error)}` });
      }
    };
  },
});

const age = /^([0-9]{1,9}) ?(s|sec|seconds?|m|min|minutes?|h|hours?|d|days?|w|weeks?)$/;
const secondsOf: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 };

const usualAlgorithms: readonly TokenAlgorithm[] = ['RS256'];

const jwt = defineCheck({
  id: 'default.jwt',
  description:
    'Passes when a header holds a JSON Web Token that is signed by a key of the set at `jwksUri`, has not expired (`exp` is required), and is not older than `maxTokenAge`. Fails without a token.',
  phases: ['input'],
  timeoutMs: 15_000,
  schema: Type.Object(
    {
      jwksUri: Url('URL of the JSON Web Key Set; only public addresses and `security.trusted_hosts`.'),
      headerKey: Type.String({
        minLength: 1,
        maxLength: 255,
        pattern: headerName.source,
        description: 'Header with the token, with or without `Bearer` before it.',
      }),
      cacheMaxAge: Type.Optional(
        Type.Integer({
          minimum: 60,
          maximum: 2_592_000,
          default: 86_400,
          description: 'Seconds until the key set is read again.',
        }),
      ),
      clockTolerance: Type.Optional(
        Type.Integer({
          minimum: 0,
          maximum: 3600,
          default: 5,
          description: 'Allowed clock difference in seconds.',
        }),
      ),
      maxTokenAge: Type.Optional(
        Type.String({
          pattern: age.source,
          default: '1d',
          description: 'Maximum age of the token, since its `iat`: `90s`, `15m`, `12h`, `1d`, `2w`.',
        }),
      ),
      algorithms: Type.Optional(
        Type.Array(Type.Union(tokenAlgorithms.map((name) => Type.Literal(name))), {
          minItems: 1,
          uniqueItems: true,
          default: [...usualAlgorithms],
          description: 'Accepted signature algorithms.',
        }),
      ),
    },
    strict,
  ),
  create(
    {
      jwksUri,
      headerKey,
      cacheMaxAge = 86_400,
      clockTolerance = 5,
      maxTokenAge = '1d',
      algorithms = usualAlgorithms,
    },
    { tokens, clock },
  ) {
    const [, count = '1', unit = 'd'] = age.exec(maxTokenAge) ?? [];
    const mostMs = Number(count) * (secondsOf[unit.charAt(0)] ?? 86_400) * 1000;
    const name = headerKey.toLowerCase();
    const verifier = tokens.verifier({
      keys: { url: jwksUri },
      issuers: [],
      audiences: [],
      algorithms,
      clockToleranceMs: clockTolerance * 1000,
      maxAgeMs: cacheMaxAge * 1000,
      timeoutMs: 5000,
    });
    return async (subject) => {
      const token =
        subject
          .header(name)
          ?.replace(/^Bearer +/i, '')
          .trim() ?? '';
      if (token === '') return failed({ explanation: `There is no token in the header ${name}.` });
      try {
        const { claims } = await verifier.verify(token);
        const issuedAt = claims['iat'];
        if (typeof issuedAt !== 'number')
          return failed({ explanation: 'The token does not say when it was issued (iat).' });
        const isFresh = clock.now() - issuedAt * 1000 <= mostMs + clockTolerance * 1000;
        return verdictOf(isFresh, false, {
          explanation: isFresh
            ? 'The token is valid.'
            : `The token is older than ${maxTokenAge} (maxTokenAge).`,
        });
      } catch (error) {
        if (GatewayError.is(error) && error.code === 'token_invalid')
          return failed({ explanation: error.message });
        throw error;
      }
    };
  },
});

/** Most URLs of one subject that are tested; one with more is not valid. */
const mostUrls = 20;
const urls = /https?:\/\/[^\s"'<>()[\]{}`|\\^]{1,2048}/gi;

function urlsIn(subject: CheckSubject): readonly string[] {
  const found = viewsOfAll(subject).flatMap((view) => view.match(urls) ?? []);
  return [...new Set(found.map((url) => url.replace(/[.,;:!?*_]{1,20}$/, '')))];
}

/** URLs that are tested at once. */
const mostAtOnce = 5;

/** Tests a URL; true when it is valid. */
type Ask = (url: URL, signal: AbortSignal) => Promise<boolean>;

const validUrls = defineCheck({
  id: 'default.validUrls',
  description: `Passes when every URL in the texts answers a GET request with a status below 400, or, with \`onlyDNS\`, when its host has a public address. More than ${mostUrls} URLs fail. Only public addresses and \`security.trusted_hosts\` are contacted.`,
  phases: ['input', 'output'],
  timeoutMs: 30_000,
  schema: Type.Object(
    {
      onlyDNS: Type.Optional(
        Type.Boolean({ default: false, description: 'Only resolve the host name; send no request.' }),
      ),
      timeout: Timeout(5000),
      not: Not,
    },
    strict,
  ),
  create({ onlyDNS = false, timeout = 5000, not }, scope) {
    const ask: Ask = onlyDNS ? hasAddress : (url, signal) => answers(scope, url, signal, timeout);
    return async (subject) => {
      const found = urlsIn(subject);
      if (found.length === 0) return skipped('There is no URL to look at.');
      const asked = found.slice(0, mostUrls);
      const isValid = await inTurns(
        asked,
        (url) => (URL.canParse(url) ? ask(new URL(url), subject.signal) : false),
        mostAtOnce,
      );
      const invalid: JsonValue[] = asked
        .filter((_, index) => isValid[index] !== true)
        .map((url) => url.slice(0, 200));
      const holds = invalid.length === 0 && found.length <= mostUrls;
      const explanation =
        found.length > mostUrls
          ? `There are ${found.length} URLs, and ${mostUrls} are looked at.`
          : `${invalid.length} of ${found.length} URLs are not valid.`;
      return verdictOf(holds, not, { explanation, invalid });
    };
  },
});

async function answers(scope: Scope, url: URL, signal: AbortSignal, timeoutMs: number): Promise<boolean> {
  // The gateway sends no credentials from a text.
  if (url.username !== '' || url.password !== '') return false;
  let isFine = false;
  const accept = (status: number): void => {
    isFine = status >= 200 && status < 400;
    // The body is not needed.
    throw new Error('The head is enough.');
  };
  try {
    await fetchWithin(scope, signal, {
      url: url.href,
      headers: ['user-agent', 'weir'],
      timeoutMs,
      maxBytes: mostBytes,
      accept,
    });
  } catch {
    signal.throwIfAborted();
  }
  return isFine;
}

async function hasAddress({ hostname }: URL, signal: AbortSignal): Promise<boolean> {
  let stop: () => void = () => undefined;
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(new Error('There was no time left.'));
    signal.addEventListener('abort', stop);
  });
  try {
    const found = await Promise.race([lookup(hostname.replaceAll(/^\[|\]$/g, ''), { all: true }), aborted]);
    // The result must not distinguish names of an internal network from those that do not exist.
    return found.length > 0 && found.every(({ address }) => isPublicAddress(address));
  } catch {
    signal.throwIfAborted();
    return false;
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

/** Checks that call others: a webhook, a log, the keys of tokens, the hosts of URLs. */
export const callChecks: readonly AnyCheck[] = [webhook, log, jwt, validUrls];
