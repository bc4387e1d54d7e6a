import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { HeaderNames } from '../base/header-names.ts';
import { forwardAnswerHeaders, forwardRequestHeaders, type ForwardOptions } from './forward-headers.ts';

const names = new HeaderNames(['x-service-', 'x-portkey-']);

const options: ForwardOptions = {
  passCredentials: true,
  dropAuthorization: false,
  keyPrefix: 'wk_',
  bodyChanged: false,
};

const traced = ['Traceparent', 't', 'Tracestate', 's=1', 'Baggage', 'b=1', 'x-a', '1'];

describe('forwardRequestHeaders', () => {
  const cases: readonly [string, readonly string[], Partial<ForwardOptions>, readonly string[]][] = [
    [
      'keeps order, case and repeats',
      ['X-B', '1', 'x-a', '2', 'X-B', '3'],
      {},
      ['X-B', '1', 'x-a', '2', 'X-B', '3'],
    ],
    [
      'drops our headers under every prefix',
      ['X-Service-Api-Key', 'k', 'x-portkey-provider', 'p', 'x-other', '1'],
      {},
      ['x-other', '1'],
    ],
    [
      'drops hop-by-hop headers',
      ['Connection', 'keep-alive', 'TE', 'trailers', 'Transfer-Encoding', 'chunked', 'Upgrade', 'h2c'],
      {},
      [],
    ],
    [
      'drops what Connection names',
      ['Connection', 'close, X-Hop', 'X-Hop', '1', 'X-Stay', '2'],
      {},
      ['X-Stay', '2'],
    ],
    [
      'drops what is set anew',
      ['Host', 'h', 'Content-Length', '3', 'Accept-Encoding', 'gzip', 'Expect', '100-continue'],
      {},
      [],
    ],
    ['passes the caller’s credential', ['Authorization', 'Bearer sk'], {}, ['Authorization', 'Bearer sk']],
    [
      'drops every credential when one is held',
      ['Authorization', 'Bearer sk', 'x-api-key', 'a', 'api-key', 'b'],
      { passCredentials: false },
      [],
    ],
    [
      'drops an authorization that held our key',
      ['Authorization', 'Bearer wk_1', 'x-api-key', 'a'],
      { dropAuthorization: true },
      ['x-api-key', 'a'],
    ],
    [
      'drops a service key from wherever the caller put it',
      ['Authorization', 'Bearer sk', 'authorization', 'bearer wk_1', 'x-api-key', 'wk_1', 'api-key', 'wk_1'],
      {},
      ['Authorization', 'Bearer sk'],
    ],
    ['drops the encoding of a changed body', ['Content-Encoding', 'gzip'], { bodyChanged: true }, []],
    [
      'keeps the encoding of an unchanged one',
      ['Content-Encoding', 'gzip'],
      {},
      ['Content-Encoding', 'gzip'],
    ],
    ['drops what is sensitive', ['X-Secret', '1', 'x-a', '2'], { sensitive: ['x-secret'] }, ['x-a', '2']],
    [
      'drops what is sensitive although it is to be forwarded',
      ['X-Secret', '1'],
      { sensitive: ['x-secret'], forward: ['x-secret'] },
      [],
    ],
    [
      'keeps a sensitive credential that the provider needs, and what describes the body',
      ['Authorization', 'Bearer sk', 'content-type', 'a/b', 'content-encoding', 'gzip'],
      { sensitive: ['authorization', 'content-type', 'content-encoding'] },
      ['Authorization', 'Bearer sk', 'content-type', 'a/b', 'content-encoding', 'gzip'],
    ],
    [
      'leaves the client’s own wire behind where the request is translated',
      [
        ...['Content-Type', 'a/b', 'Accept', '*/*', 'accept-language', 'de', 'X-Stainless-Lang', 'js'],
        ...['OpenAI-Beta', '1', 'Anthropic-Beta', '1', 'x-goog-user-project', 'p', 'Content-MD5', 'x'],
        ...['x-goog-api-key', 'sk', 'User-Agent', 'u', 'x-other', 't'],
      ],
      { bodyChanged: true, translated: { speaksAnthropic: false } },
      ['x-goog-api-key', 'sk', 'User-Agent', 'u', 'x-other', 't'],
    ],
    ['drops what tells the trace', traced, {}, ['x-a', '1']],
    [
      'takes along what tells the trace when it is to be forwarded, as it came',
      traced,
      { translated: { speaksAnthropic: false }, forward: ['traceparent', 'baggage'] },
      ['Traceparent', 't', 'Baggage', 'b=1', 'x-a', '1'],
    ],
    [
      'tells the trace with a parent of its own, and state and baggage as they came',
      traced,
      { trace: { parent: 'own', keepsState: true } },
      ['Tracestate', 's=1', 'Baggage', 'b=1', 'x-a', '1', 'traceparent', 'own'],
    ],
    [
      'tells no state of a trace that begins here',
      traced,
      { trace: { parent: 'own', keepsState: false } },
      ['Baggage', 'b=1', 'x-a', '1', 'traceparent', 'own'],
    ],
    [
      'tells nothing of the trace that is sensitive',
      traced,
      { trace: { parent: 'own', keepsState: true }, sensitive: ['traceparent', 'baggage'] },
      ['Tracestate', 's=1', 'x-a', '1'],
    ],
    [
      'keeps Anthropic’s headers for a host that speaks its wire',
      ['Anthropic-Beta', '1', 'OpenAI-Beta', '1'],
      { translated: { speaksAnthropic: true } },
      ['Anthropic-Beta', '1'],
    ],
    [
      'takes along what is to be forwarded, but never what describes another body',
      ['OpenAI-Beta', '1', 'Accept-Language', 'de', 'Content-Type', 'a/b', 'openai-project', 'p'],
      { translated: { speaksAnthropic: false }, forward: ['openai-beta', 'accept-language', 'content-type'] },
      ['OpenAI-Beta', '1', 'Accept-Language', 'de'],
    ],
    [
      'forwards nothing that belongs to the connection, to the gateway or to somebody’s credentials',
      [
        ...['Connection', 'x-hop', 'x-hop', '1', 'TE', 'trailers', 'host', 'h', 'x-service-provider', 'p'],
        ...['authorization', 'Bearer sk'],
      ],
      {
        passCredentials: false,
        forward: ['connection', 'x-hop', 'te', 'host', 'x-service-provider', 'authorization'],
      },
      [],
    ],
  ];
  for (const [name, headers, change, expected] of cases) {
    it(name, () => {
      const forwarded = forwardRequestHeaders(headers, names.ofList(headers), { ...options, ...change });
      assert.deepEqual(forwarded, expected);
    });
  }
});

describe('forwardAnswerHeaders', () => {
  it('removes what would act on the origin of the gateway', () => {
    const acting = [
      ...[
        'Set-Cookie',
        'set-cookie2',
        'Strict-Transport-Security',
        'Clear-Site-Data',
        'Alt-Svc',
        'NEL',
        'Report-To',
      ],
      ...['Access-Control-Allow-Origin', 'access-control-allow-credentials', 'Access-Control-Expose-Headers'],
      ...[
        'Service-Worker-Allowed',
        'Public-Key-Pins',
        'Cross-Origin-Opener-Policy',
        'Content-Security-Policy',
      ],
    ];
    const headers = acting.flatMap((name) => [name, 'x']);
    assert.deepEqual(forwardAnswerHeaders([...headers, 'x-kept', '1', 'cookie-policy', '2'], true), [
      ...['x-kept', '1', 'cookie-policy', '2'],
    ]);
  });

  it('removes hop-by-hop headers', () => {
    const headers = ['Transfer-Encoding', 'chunked', 'x-ratelimit-remaining', '5', 'Content-Length', '3'];
    assert.deepEqual(forwardAnswerHeaders(headers, true), [
      'x-ratelimit-remaining',
      '5',
      'Content-Length',
      '3',
    ]);
    assert.equal(forwardAnswerHeaders(headers, false).includes('Content-Length'), false);
  });

  it('leaves to the gateway what it says itself under its prefixes', () => {
    const own = [
      'request-id',
      'trace-id',
      'provider',
      'cache-status',
      'retry-attempt-count',
      'dropped',
      'explain',
    ];
    const said = [...own, 'last-used-option-index', 'version'].flatMap((name) => [`X-Portkey-${name}`, '1']);
    assert.deepEqual(forwardAnswerHeaders([...said, 'x-a', '2'], true, names), [
      'X-Portkey-version',
      '1',
      'x-a',
      '2',
    ]);
    assert.deepEqual(forwardAnswerHeaders(said, true), said, 'no prefix is known');
  });
});
