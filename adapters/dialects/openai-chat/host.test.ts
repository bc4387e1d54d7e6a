import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EncodeReport } from '../../../core/dialects/canonical/chat-codec.ts';
import type { DialectName, EndpointId } from '../../../core/dialects/endpoint.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import type { BodyEdits, UpstreamPlan } from '../../../core/dialects/upstream-plan.ts';
import type { JsonObject } from '../json-reading.ts';
import { openAiCompletionsHost } from '../openai-completions/index.ts';
import { workersAiHost } from '../workers-ai/host.ts';
import { host } from './codec.test-support.ts';
import { openAiChatHost, openAiChatProvider } from './host.ts';

const plan = (
  wire: typeof openAiChatHost,
  endpoint: EndpointId,
  spoken: DialectName = 'openai-chat',
  facts: HostFacts = host(),
): UpstreamPlan =>
  wire.plan({ endpoint, spoken, method: 'POST', path: '/x', query: '?a=1', stream: false, host: facts });

test('what a host speaks itself travels, the rest is translated or refused', () => {
  const cases: readonly (readonly [typeof openAiChatHost, EndpointId, DialectName, string])[] = [
    [openAiChatHost, 'chat.completions', 'openai-chat', 'pass'],
    [openAiChatHost, 'completions', 'openai-completions', 'pass'],
    [openAiChatHost, 'embeddings', 'openai-chat', 'pass'],
    [openAiChatHost, 'rerank', 'openai-chat', 'pass'],
    [openAiChatHost, 'proxy', 'openai-chat', 'pass'],
    [openAiChatHost, 'messages', 'anthropic-messages', 'chat'],
    [openAiChatHost, 'responses', 'openai-responses', 'chat'],
    [openAiChatHost, 'generate-content', 'google-gemini', 'chat'],
    [openAiChatHost, 'messages.count_tokens', 'anthropic-messages', 'refuse'],
    [openAiCompletionsHost, 'completions', 'openai-completions', 'pass'],
    [openAiCompletionsHost, 'chat.completions', 'openai-chat', 'chat'],
    [openAiCompletionsHost, 'models', 'openai-chat', 'pass'],
    [openAiCompletionsHost, 'messages.count_tokens', 'anthropic-messages', 'refuse'],
    [workersAiHost, 'chat.completions', 'openai-chat', 'chat'],
    [workersAiHost, 'completions', 'openai-completions', 'chat'],
    [workersAiHost, 'embeddings', 'openai-chat', 'operation'],
    [workersAiHost, 'moderations', 'openai-chat', 'refuse'],
    [workersAiHost, 'proxy', 'openai-chat', 'pass'],
  ];
  for (const [wire, endpoint, spoken, kind] of cases) {
    assert.equal(plan(wire, endpoint, spoken).kind, kind, `${wire.name} ${endpoint}`);
  }
  const chat = plan(openAiChatHost, 'messages', 'anthropic-messages');
  assert.ok(chat.kind === 'chat' && chat.codec === openAiChatProvider);
});

test('a host without peculiarities costs nothing: the same path, no edit', () => {
  assert.deepEqual(plan(openAiChatHost, 'chat.completions'), { kind: 'pass', path: '/x?a=1' });
  const moved = host('river-1', { paths: { embeddings: '/embed' } });
  assert.deepEqual(plan(openAiChatHost, 'embeddings', 'openai-chat', moved), {
    kind: 'pass',
    path: '/embed?a=1',
  });
});

/** The body after the edits of a passed request, and what they dropped. */
function edited(body: JsonObject, facts: HostFacts): { body: JsonObject; dropped: readonly string[] } {
  const json = structuredClone(body);
  const at = (path: readonly (string | number)[]): JsonObject =>
    path.slice(0, -1).reduce<JsonObject>((holder, step) => holder[step] as JsonObject, json);
  const edits: BodyEdits = {
    json,
    set: (path, value) => void (at(path)[path.at(-1) as string] = value),
    remove: (path) => void delete at(path)[path.at(-1) as string],
  };
  const report = new EncodeReport();
  const passed = plan(openAiChatHost, 'chat.completions', 'openai-chat', facts);
  if (passed.kind === 'pass') passed.edit?.(edits, report);
  return { body: json, dropped: report.dropped };
}

test('a passed request says otherwise only what the host wants otherwise', () => {
  const quirks = {
    rename: { seed: 'random_seed', max_completion_tokens: 'max_tokens' },
    drop: ['user'],
    roles: { developer: 'system' },
    values: { tool_choice: { required: 'any' } },
  };
  const cases: readonly (readonly [JsonObject, HostFacts, JsonObject, readonly string[]])[] = [
    [
      {
        seed: 2n ** 60n,
        user: 'ann',
        tool_choice: 'required',
        max_completion_tokens: 5,
        messages: [{ role: 'developer' }, { role: 'user' }],
      },
      host('river-1', quirks),
      {
        random_seed: 2n ** 60n,
        tool_choice: 'any',
        max_tokens: 5,
        messages: [{ role: 'system' }, { role: 'user' }],
      },
      ['user'],
    ],
    [{ temperature: 1 }, host('river-1', quirks), { temperature: 1 }, []],
    [{ max_tokens: 5 }, host('gpt-5'), { max_completion_tokens: 5 }, []],
    [{ max_tokens: 5, max_completion_tokens: 6 }, host('o3-mini'), { max_completion_tokens: 6 }, []],
    [{ max_tokens: 5 }, host('gpt-5', quirks), { max_tokens: 5 }, []],
    [{ max_tokens: 5 }, host('gpt-4o'), { max_tokens: 5 }, []],
  ];
  for (const [body, facts, expected, dropped] of cases)
    assert.deepEqual(edited(body, facts), { body: expected, dropped });
});
