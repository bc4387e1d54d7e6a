import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ChatPart } from '../../../core/dialects/canonical/chat-part.ts';
import type { ChatRequest, ToolDefinition } from '../../../core/dialects/canonical/chat-request.ts';
import { encoded, hostFacts } from './cohere.test-support.ts';

const tool = (name: string, more: object = {}): ToolDefinition => ({ type: 'function', name, ...more });
const user = (...parts: ChatPart[]): Partial<ChatRequest> => ({ messages: [{ role: 'user', parts }] });
const text = (value: string): ChatPart => ({ type: 'text', text: value });

describe('a request to Cohere: settings', () => {
  it('asks for the model of the host at the second version of chat', () => {
    const { path, body } = encoded(user(text('Hi')));
    assert.equal(path, '/v2/chat');
    assert.deepEqual(body, { model: 'command-a-03-2025', messages: [{ role: 'user', content: 'Hi' }] });
  });

  it('says every setting that the wire has', () => {
    const { body, dropped, emulated } = encoded({
      stream: true,
      maxOutputTokens: 100,
      temperature: 0.2,
      topP: 0.9,
      topK: 40,
      frequencyPenalty: 0.1,
      presencePenalty: 0.2,
      seed: 7,
      stop: ['END'],
      logprobs: true,
      n: 1,
      store: false,
      modalities: ['text'],
      includeUsage: true,
    });
    assert.deepEqual(body, {
      model: 'command-a-03-2025',
      messages: [],
      stream: true,
      max_tokens: 100,
      temperature: 0.2,
      p: 0.9,
      k: 40,
      frequency_penalty: 0.1,
      presence_penalty: 0.2,
      seed: 7,
      stop_sequences: ['END'],
      logprobs: true,
    });
    assert.deepEqual([dropped, emulated], [[], []]);
  });

  it('reports what the wire cannot say', () => {
    const { body, dropped } = encoded({
      n: 2,
      topLogprobs: 3,
      logitBias: { 5: 1 },
      verbosity: 'low',
      user: 'u',
      safetyIdentifier: 's',
      promptCacheKey: 'k',
      metadata: {},
      serviceTier: 'flex',
      store: true,
      modalities: ['audio'],
      audio: {},
      extras: { 'openai-chat': { web_search_options: {} } },
    });
    assert.deepEqual(body, { model: 'command-a-03-2025', messages: [] });
    assert.deepEqual(dropped, [
      ...['n', 'top_logprobs', 'logit_bias', 'verbosity', 'user', 'safety_identifier', 'prompt_cache_key'],
      ...['metadata', 'service_tier', 'store', 'modalities', 'audio', 'web_search_options'],
    ]);
  });

  it('comes as near to a value as the documented range allows', () => {
    const { body, emulated } = encoded({ topP: 1, frequencyPenalty: -1, presencePenalty: 1.5 });
    assert.deepEqual([body.p, body.frequency_penalty, body.presence_penalty], [0.99, 0, 1]);
    assert.deepEqual(emulated, ['top_p', 'frequency_penalty', 'presence_penalty']);
  });

  it('keeps the digits of a large seed', () => {
    assert.match(encoded({ seed: 18446744073709551615n }).text, /"seed":18446744073709551615/);
  });

  it('takes members of Cohere from any client, and the explicit wish last', () => {
    const { body, dropped } = encoded({
      temperature: 0.2,
      extras: {
        'openai-chat': { documents: ['a'], citation_options: { mode: 'FAST' }, safety_mode: 'STRICT' },
        'cohere-v2': { temperature: 0.9, raw_prompting: true },
      },
    });
    assert.deepEqual(
      [body.documents, body.citation_options, body.safety_mode, body.temperature, body.raw_prompting],
      [['a'], { mode: 'FAST' }, 'STRICT', 0.9, true],
    );
    assert.deepEqual(dropped, []);
  });

  it("obeys the host's quirks", () => {
    const quirks = { rename: { k: 'top_k', p: 'p' }, drop: ['seed'], paths: { 'chat.completions': '/chat' } };
    const { body, path, dropped } = encoded({ topK: 3, topP: 0.5, seed: 1 }, hostFacts('m', quirks));
    assert.equal(path, '/chat');
    assert.deepEqual([body.top_k, body.k, body.p, body.seed], [3, undefined, 0.5, undefined]);
    assert.deepEqual(dropped, ['seed']);
  });

  const thinking: readonly (readonly [ChatRequest['reasoning'], unknown, readonly string[]])[] = [
    [{ enabled: false }, { type: 'disabled' }, []],
    [{ effort: 'none' }, { type: 'disabled' }, []],
    [{ enabled: true, budgetTokens: 500 }, { type: 'enabled', token_budget: 500 }, []],
    [{ effort: 'medium' }, { type: 'enabled', token_budget: 8192 }, ['reasoning_effort']],
    [{ adaptive: true }, { type: 'enabled' }, []],
    [{}, undefined, []],
  ];
  for (const [reasoning, expected, emulated] of thinking) {
    it(`says the reasoning settings ${JSON.stringify(reasoning)}`, () => {
      const result = encoded({ reasoning: reasoning ?? {} });
      assert.deepEqual(result.body.thinking, expected);
      assert.deepEqual(result.emulated, emulated);
    });
  }

  it('reports an effort that it does not know', () => {
    const { body, dropped } = encoded({ reasoning: { effort: 'heroic' } });
    assert.deepEqual([body.thinking, dropped], [undefined, ['reasoning_effort']]);
  });

  it('asks for structured output', () => {
    const schema = { type: 'object' };
    assert.deepEqual(
      encoded({ responseFormat: { type: 'json-schema', name: 'x', schema } }).body.response_format,
      {
        type: 'json_object',
        json_schema: schema,
      },
    );
    assert.deepEqual(encoded({ responseFormat: { type: 'json' } }).body.response_format, {
      type: 'json_object',
    });
    assert.deepEqual(encoded({ responseFormat: { type: 'text' } }).body.response_format, { type: 'text' });
  });
});

describe('a request to Cohere: tools', () => {
  it('defines functions, also those without parameters', () => {
    const parameters = { type: 'object', properties: { a: { type: 'string' } } };
    const { body } = encoded({ tools: [tool('one', { description: 'First', parameters }), tool('two')] });
    assert.deepEqual(body.tools, [
      { type: 'function', function: { name: 'one', description: 'First', parameters } },
      { type: 'function', function: { name: 'two', parameters: { type: 'object', properties: {} } } },
    ]);
    assert.deepEqual([body.tool_choice, body.strict_tools], [undefined, undefined]);
  });

  const choices: readonly (readonly [ChatRequest['toolChoice'], unknown, number, readonly string[]])[] = [
    [{ type: 'auto' }, undefined, 2, []],
    [{ type: 'none' }, 'NONE', 2, []],
    [{ type: 'required' }, 'REQUIRED', 2, []],
    [{ type: 'tool', name: 'two', kind: 'function' }, 'REQUIRED', 1, ['tool_choice']],
    [{ type: 'allowed', mode: 'auto', names: ['one'] }, undefined, 1, ['tool_choice']],
    [{ type: 'allowed', mode: 'required', names: ['one'] }, 'REQUIRED', 1, ['tool_choice']],
  ];
  for (const [choice, word, count, emulated] of choices) {
    it(`says the choice ${JSON.stringify(choice)}`, () => {
      const result = encoded({ tools: [tool('one'), tool('two')], ...(choice && { toolChoice: choice }) });
      assert.equal(result.body.tool_choice, word);
      assert.equal((result.body.tools as unknown[]).length, count);
      assert.deepEqual(result.emulated, emulated);
    });
  }

  it('is strict when all tools want it', () => {
    const strict = { strict: true };
    assert.equal(encoded({ tools: [tool('one', strict), tool('two', strict)] }).body.strict_tools, true);
    const mixed = encoded({ tools: [tool('one', strict), tool('two')] });
    assert.deepEqual([mixed.body.strict_tools, mixed.dropped], [undefined, ['tools[].function.strict']]);
  });

  it('has a function for a tool with free input, and reports what it does not have', () => {
    const { body, dropped, emulated } = encoded({
      tools: [
        tool('one', { cache: {} }),
        { type: 'custom', name: 'free', description: 'Runs it.', format: { type: 'text' } },
        { type: 'provider', dialect: 'openai-responses', purpose: 'web-search', value: {} },
      ],
      parallelToolCalls: false,
    });
    const input = { type: 'string', description: 'The whole input of the tool.' };
    const parameters = { type: 'object', properties: { input }, required: ['input'] };
    assert.deepEqual((body.tools as unknown[]).slice(1), [
      { type: 'function', function: { name: 'free', description: 'Runs it.', parameters } },
    ]);
    assert.deepEqual(dropped, [
      'tools[0].cache_control',
      'tools[1].custom.format',
      'tools[2]',
      'parallel_tool_calls',
    ]);
    assert.deepEqual(emulated, ['tools[1]']);
  });

  it('makes no choice without tools', () => {
    assert.equal('tool_choice' in encoded({ toolChoice: { type: 'required' } }).body, false);
  });
});
