import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { matchEndpoint } from './match-endpoint.ts';

const modelled: readonly (readonly [string, string, string])[] = [
  ['/chat/completions', 'chat.completions', 'openai-chat'],
  ['/completions', 'completions', 'openai-completions'],
  ['/embeddings', 'embeddings', 'openai-chat'],
  ['/moderations', 'moderations', 'openai-chat'],
  ['/rerank', 'rerank', 'openai-chat'],
  ['/responses', 'responses', 'openai-responses'],
  ['/messages', 'messages', 'anthropic-messages'],
  ['/messages/count_tokens', 'messages.count_tokens', 'anthropic-messages'],
  ['/v1beta/models/gemini-2.5-pro:generateContent', 'generate-content', 'google-gemini'],
  ['/models/gemini-2.5-pro:streamGenerateContent', 'generate-content', 'google-gemini'],
  ['/v1beta/models/@router/vendor/model:generateContent', 'generate-content', 'google-gemini'],
  [
    '/v1/projects/p/locations/l/publishers/google/models/m:streamGenerateContent',
    'generate-content',
    'google-gemini',
  ],
];

test('a modelled endpoint is found by method and path', () => {
  for (const [path, id, dialect] of modelled) {
    assert.deepEqual({ ...matchEndpoint('POST', path) }, { id, dialect, modelled: true });
  }
});

test('no spelling of a path walks around its classification', () => {
  const spellings = [
    '/chat/completions/',
    '/chat//completions',
    '//chat/completions',
    '/chat/%63ompletions',
    '/%63%68%61%74/%43ompletions',
    '/chat%2Fcompletions',
    '/chat/./completions',
    '/x/../chat/completions',
    '/chat/%2e%2e/chat/completions',
    '/Chat/Completions',
    '/chat\\completions',
    '/proxy/chat/completions',
  ];
  for (const path of spellings) assert.equal(matchEndpoint('POST', path).id, 'chat.completions', path);
});

test('any mix of percent-encoding, case and extra slashes is the same endpoint', () => {
  const spell = fc.constantFrom(
    (letter: string) => letter,
    (letter: string) => letter.toUpperCase(),
    (letter: string) => `%${letter.charCodeAt(0).toString(16)}`,
    (letter: string) => (letter === '/' ? '///' : letter),
  );
  for (const [path, id] of modelled) {
    fc.assert(
      fc.property(fc.array(spell, { minLength: path.length, maxLength: path.length }), (spellers) => {
        const spelled = [...path].map((letter, i) => spellers[i]?.(letter)).join('');
        return matchEndpoint('POST', spelled).id === id;
      }),
      { numRuns: 50 },
    );
  }
});

test('what is not modelled has a name for analytics and is not read', () => {
  const cases: readonly (readonly [string, string, string, string])[] = [
    ['POST', '/images/generations', 'images.generations', 'openai-chat'],
    ['POST', '/images/edits', 'images', 'openai-chat'],
    ['POST', '/audio/speech', 'audio.speech', 'openai-chat'],
    ['POST', '/v1beta/models/gemini-2.5-pro:countTokens', 'proxy', 'google-gemini'],
    ['GET', '/v1beta/models/gemini-2.5-pro', 'models', 'google-gemini'],
    ['POST', '/audio/transcriptions', 'audio', 'openai-chat'],
    ['GET', '/files', 'files', 'openai-chat'],
    ['GET', '/files/file-1/content', 'files', 'openai-chat'],
    ['GET', '/fine_tuning/jobs', 'fine_tuning.jobs', 'openai-chat'],
    ['POST', '/fine_tuning/jobs/', 'fine_tuning.jobs', 'openai-chat'],
    ['GET', '/fine_tuning/checkpoints', 'proxy', 'openai-chat'],
    ['POST', '/batches', 'batches', 'openai-chat'],
    ['GET', '/models/a%2Fb', 'models', 'openai-chat'],
    ['GET', '/realtime', 'realtime', 'openai-chat'],
    ['POST', '/Realtime/calls', 'realtime', 'openai-chat'],
    ['GET', '/realtimes', 'proxy', 'openai-chat'],
    ['GET', '/modelsandmore', 'proxy', 'openai-chat'],
    ['GET', '/chat/completions', 'proxy', 'openai-chat'],
    ['GET', '/responses/resp_1', 'proxy', 'openai-responses'],
    ['GET', '/messages/count_tokens', 'proxy', 'anthropic-messages'],
    ['POST', '/threads/thread_1/messages', 'proxy', 'openai-chat'],
    ['POST', '/', 'proxy', 'openai-chat'],
    ['POST', '/%zz/%', 'proxy', 'openai-chat'],
  ];
  for (const [method, path, id, dialect] of cases) {
    assert.deepEqual(
      { ...matchEndpoint(method, path) },
      { id, dialect, modelled: false },
      `${method} ${path}`,
    );
  }
});
