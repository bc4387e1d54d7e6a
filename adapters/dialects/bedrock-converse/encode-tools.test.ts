import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type {
  ChatMessage,
  ChatRequest,
  ToolDefinition,
} from '../../../core/dialects/canonical/chat-request.ts';
import { encoded, models } from './converse.test-support.ts';

const schema = { type: 'object', properties: { a: { type: 'string' } } };
const f: ToolDefinition = { type: 'function', name: 'f', description: 'Does.', parameters: schema };
const g: ToolDefinition = { type: 'function', name: 'g', description: ' ' };
const fSpec = { toolSpec: { name: 'f', description: 'Does.', inputSchema: { json: schema } } };
const gSpec = { toolSpec: { name: 'g', inputSchema: { json: { type: 'object', properties: {} } } } };
const called: readonly ChatMessage[] = [
  { role: 'user', parts: [{ type: 'text', text: 'A' }] },
  {
    role: 'assistant',
    parts: [{ type: 'tool-call', id: 'c', name: 'f', kind: 'function', arguments: '{}' }],
  },
  { role: 'tool', parts: [{ type: 'tool-result', callId: 'c', kind: 'function', content: [] }] },
];
const format = { type: 'json-schema', schema } as const;
const answerTool = {
  toolSpec: {
    name: 'json',
    description: 'Give the answer as a JSON object.',
    inputSchema: { json: schema },
  },
};

interface Row {
  readonly says: string;
  readonly model?: string;
  readonly given: Partial<ChatRequest>;
  readonly toolConfig: unknown;
  readonly fields?: unknown;
  readonly dropped?: readonly string[];
  readonly emulated?: readonly string[];
}

const rows: readonly Row[] = [
  { says: 'tools', given: { tools: [f, g] }, toolConfig: { tools: [fSpec, gSpec] } },
  {
    says: 'a schema that does not say that it is an object',
    given: { tools: [{ type: 'function', name: 'h', parameters: { properties: {} } }] },
    toolConfig: {
      tools: [{ toolSpec: { name: 'h', inputSchema: { json: { type: 'object', properties: {} } } } }],
    },
  },
  {
    says: 'a strict tool',
    given: { tools: [{ ...f, strict: true }] },
    toolConfig: { tools: [{ toolSpec: { ...fSpec.toolSpec, strict: true } }] },
  },
  {
    says: 'a strict tool for a model that has none',
    model: models.nova,
    given: { tools: [{ ...f, strict: true }] },
    toolConfig: { tools: [fSpec] },
    dropped: ['tools[0].function.strict'],
  },
  {
    says: 'a cache marker',
    given: { tools: [{ ...f, cache: { ttl: '5m' } }] },
    toolConfig: { tools: [fSpec, { cachePoint: { type: 'default', ttl: '5m' } }] },
  },
  {
    says: 'a cache marker that Nova does not take there',
    model: models.nova,
    given: { tools: [{ ...f, cache: {} }] },
    toolConfig: { tools: [fSpec] },
    dropped: ['tools[0].cache_control'],
  },
  {
    says: 'a custom tool',
    given: { tools: [{ type: 'custom', name: 'x', format: { type: 'grammar' } }] },
    toolConfig: {
      tools: [
        {
          toolSpec: {
            name: 'x',
            inputSchema: {
              json: { type: 'object', properties: { input: { type: 'string' } }, required: ['input'] },
            },
          },
        },
      ],
    },
    dropped: ['tools[0].custom.format'],
    emulated: ['tools[0]'],
  },
  {
    says: 'a tool of this dialect',
    given: {
      tools: [
        {
          type: 'provider',
          dialect: 'bedrock-converse',
          purpose: 'other',
          value: { systemTool: { name: 's' } },
        },
      ],
    },
    toolConfig: { tools: [{ systemTool: { name: 's' } }] },
  },
  {
    says: 'web search by Nova',
    model: models.nova2,
    given: {
      tools: [
        {
          type: 'provider',
          dialect: 'openai-responses',
          purpose: 'web-search',
          value: { type: 'web_search' },
        },
      ],
    },
    toolConfig: { tools: [{ systemTool: { name: 'nova_grounding' } }] },
    emulated: ['tools[0]'],
  },
  {
    says: 'web search by a model without it',
    given: {
      tools: [
        {
          type: 'provider',
          dialect: 'openai-responses',
          purpose: 'web-search',
          value: { type: 'web_search' },
        },
      ],
    },
    toolConfig: undefined,
    dropped: ['tools[0]'],
  },
  {
    says: "Claude's computer",
    given: {
      tools: [
        f,
        {
          type: 'provider',
          dialect: 'anthropic-messages',
          purpose: 'computer',
          value: { type: 'computer_20250124', name: 'computer' },
        },
      ],
    },
    toolConfig: { tools: [fSpec] },
    fields: {
      tools: [{ type: 'computer_20250124', name: 'computer' }],
      anthropic_beta: ['computer-use-2025-01-24'],
    },
  },
  {
    says: 'some tool must be called',
    given: { tools: [f], toolChoice: { type: 'required' } },
    toolConfig: { tools: [fSpec], toolChoice: { any: {} } },
  },
  {
    says: 'one tool must be called',
    given: { tools: [f, g], toolChoice: { type: 'tool', name: 'g', kind: 'function' } },
    toolConfig: { tools: [fSpec, gSpec], toolChoice: { tool: { name: 'g' } } },
  },
  {
    says: 'one tool must be called by a model that must call some',
    model: models.mistral,
    given: { tools: [f, g], toolChoice: { type: 'tool', name: 'g', kind: 'function' } },
    toolConfig: { tools: [gSpec], toolChoice: { any: {} } },
    emulated: ['tool_choice'],
  },
  {
    says: 'a model that cannot be made to call',
    model: models.llama,
    given: { tools: [f], toolChoice: { type: 'required' } },
    toolConfig: { tools: [fSpec] },
    dropped: ['tool_choice'],
  },
  {
    says: 'a Claude that thinks cannot be made to call',
    model: models.adaptiveClaude,
    given: { tools: [f], toolChoice: { type: 'required' }, reasoning: { effort: 'low' } },
    toolConfig: { tools: [fSpec] },
    fields: { thinking: { type: 'adaptive' }, output_config: { effort: 'low' } },
    dropped: ['tool_choice'],
  },
  {
    says: 'only some tools are allowed',
    given: { tools: [f, g], toolChoice: { type: 'allowed', mode: 'required', names: ['f'] } },
    toolConfig: { tools: [fSpec], toolChoice: { any: {} } },
    emulated: ['tool_choice'],
  },
  {
    says: 'one call at a time by Claude',
    given: {
      tools: [f],
      toolChoice: { type: 'tool', name: 'f', kind: 'function' },
      parallelToolCalls: false,
    },
    toolConfig: { tools: [fSpec] },
    fields: { tool_choice: { type: 'tool', name: 'f', disable_parallel_tool_use: true } },
  },
  {
    says: 'one call at a time by others',
    model: models.nova,
    given: { tools: [f], parallelToolCalls: false },
    toolConfig: { tools: [fSpec] },
    dropped: ['parallel_tool_calls'],
  },
  {
    says: 'no tool may be called: none is sent',
    given: { tools: [f], toolChoice: { type: 'none' } },
    toolConfig: undefined,
  },
  {
    says: 'no tool may be called, though the history holds calls',
    given: { tools: [f], toolChoice: { type: 'none' }, messages: called },
    toolConfig: { tools: [fSpec] },
    fields: { tool_choice: { type: 'none' } },
  },
  {
    says: 'the same for models that cannot be forbidden it',
    model: models.nova,
    given: { tools: [f], toolChoice: { type: 'none' }, messages: called },
    toolConfig: { tools: [fSpec] },
    dropped: ['tool_choice'],
  },
  {
    says: 'calls in the history without any tools',
    model: models.nova,
    given: { messages: called },
    toolConfig: { tools: [{ toolSpec: { name: 'f', inputSchema: { json: { type: 'object' } } } }] },
    emulated: ['tools'],
  },
  {
    says: 'a schema by a forced tool',
    model: models.oldClaude,
    given: { responseFormat: format },
    toolConfig: { tools: [answerTool], toolChoice: { tool: { name: 'json' } } },
    emulated: ['response_format'],
  },
  {
    says: 'a schema that is no object, which no tool can have',
    model: models.oldClaude,
    given: { responseFormat: { type: 'json-schema', schema: { type: 'array' } } },
    toolConfig: undefined,
    dropped: ['response_format'],
  },
  {
    says: 'a schema beside tools',
    model: models.oldClaude,
    given: { responseFormat: format, tools: [f] },
    toolConfig: { tools: [fSpec, answerTool], toolChoice: { any: {} } },
    emulated: ['response_format'],
  },
  {
    says: 'a schema for a model that cannot be made to call',
    model: models.llama,
    given: { responseFormat: format },
    toolConfig: { tools: [answerTool] },
    emulated: ['response_format'],
  },
  {
    says: 'a schema beside a tool that has its name',
    model: models.oldClaude,
    given: { responseFormat: format, tools: [{ ...f, name: 'json' }], toolChoice: { type: 'none' } },
    toolConfig: {
      tools: [{ toolSpec: { ...answerTool.toolSpec, name: 'json_answer' } }],
      toolChoice: { tool: { name: 'json_answer' } },
    },
    emulated: ['response_format'],
  },
];

describe('tools', () => {
  for (const {
    says,
    model = models.claude,
    given,
    toolConfig,
    fields,
    dropped = [],
    emulated = [],
  } of rows) {
    it(says, () => {
      const out = encoded(model, given);
      assert.deepEqual(out.body.toolConfig, toolConfig);
      assert.deepEqual(out.body.additionalModelRequestFields, fields);
      assert.deepEqual(out.dropped, dropped);
      assert.deepEqual(out.emulated, emulated);
    });
  }
});
