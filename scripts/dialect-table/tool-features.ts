import type { JsonObject } from '../../core/dialects/canonical/chat-part.ts';
import type { RequestFeature } from './request-feature.ts';

const schema: JsonObject = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
const named = { name: 'get_weather', description: 'The weather of a city.' };
const chatTools: JsonObject = { tools: [{ type: 'function', function: { ...named, parameters: schema } }] };
const responsesTools: JsonObject = {
  tools: [{ type: 'function', ...named, parameters: schema }],
};
const messagesTools: JsonObject = { tools: [{ ...named, input_schema: schema }] };
const geminiTools: JsonObject = {
  tools: [{ functionDeclarations: [{ ...named, parametersJsonSchema: schema }] }],
};
const nested: JsonObject = {
  type: 'object',
  properties: { place: { $ref: '#/$defs/place' } },
  $defs: { place: { type: 'string', description: 'A place on a river.' } },
};
const user = { role: 'user', content: 'Hello.' };
const responsesHello = { role: 'user', content: 'Hello.' };
const chatCall = {
  role: 'assistant',
  tool_calls: [
    { id: 'call_1', type: 'function', function: { name: 'get_weather', arguments: '{"city":"Kiel"}' } },
  ],
};
const responsesCall = {
  type: 'function_call',
  call_id: 'call_1',
  name: 'get_weather',
  arguments: '{"city":"Kiel"}',
};
const messagesCall = {
  role: 'assistant',
  content: [{ type: 'tool_use', id: 'call_1', name: 'get_weather', input: { city: 'Kiel' } }],
};
const result = (members: JsonObject): JsonObject => ({
  ...messagesTools,
  messages: [
    user,
    messagesCall,
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'call_1', ...members }] },
  ],
});
const png =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==';

/** Features of tools. */
export const toolFeatures: readonly RequestFeature[] = [
  {
    name: 'functions',
    marker: /get_weather/,
    said: {
      'openai-chat': chatTools,
      'openai-responses': responsesTools,
      'anthropic-messages': messagesTools,
      'google-gemini': geminiTools,
    },
  },
  {
    name: 'references in a schema',
    marker: /A place on a river\./,
    said: {
      'openai-chat': { tools: [{ type: 'function', function: { ...named, parameters: nested } }] },
      'openai-responses': { tools: [{ type: 'function', ...named, parameters: nested, strict: false }] },
      'anthropic-messages': { tools: [{ ...named, input_schema: nested }] },
      'google-gemini': { tools: [{ functionDeclarations: [{ ...named, parametersJsonSchema: nested }] }] },
    },
  },
  {
    name: 'strict functions',
    over: 'functions',
    marker: /"strict(_tools)?":true/,
    said: {
      'openai-chat': {
        tools: [{ type: 'function', function: { ...named, parameters: schema, strict: true } }],
      },
      'openai-responses': { tools: [{ type: 'function', ...named, parameters: schema, strict: true }] },
      'anthropic-messages': { tools: [{ ...named, input_schema: schema, strict: true }] },
    },
  },
  {
    name: 'legacy functions',
    marker: /get_weather/,
    said: { 'openai-chat': { functions: [{ ...named, parameters: schema }] } },
  },
  {
    name: 'custom tools (free text)',
    marker: /write_sql/,
    said: {
      'openai-chat': { tools: [{ type: 'custom', custom: { name: 'write_sql' } }] },
      'openai-responses': { tools: [{ type: 'custom', name: 'write_sql' }] },
    },
  },
  {
    name: 'a tool must be called',
    over: 'functions',
    said: {
      'openai-chat': { ...chatTools, tool_choice: 'required' },
      'openai-responses': { ...responsesTools, tool_choice: 'required' },
      'anthropic-messages': { ...messagesTools, tool_choice: { type: 'any' } },
      'google-gemini': { ...geminiTools, toolConfig: { functionCallingConfig: { mode: 'ANY' } } },
    },
  },
  {
    name: 'no tool may be called',
    over: 'functions',
    said: {
      'openai-chat': { ...chatTools, tool_choice: 'none' },
      'openai-responses': { ...responsesTools, tool_choice: 'none' },
      'anthropic-messages': { ...messagesTools, tool_choice: { type: 'none' } },
      'google-gemini': { ...geminiTools, toolConfig: { functionCallingConfig: { mode: 'NONE' } } },
    },
  },
  {
    name: 'this tool must be called',
    over: 'functions',
    said: {
      'openai-chat': {
        ...chatTools,
        tool_choice: { type: 'function', function: { name: 'get_weather' } },
      },
      'openai-responses': { ...responsesTools, tool_choice: { type: 'function', name: 'get_weather' } },
      'anthropic-messages': { ...messagesTools, tool_choice: { type: 'tool', name: 'get_weather' } },
      'google-gemini': {
        ...geminiTools,
        toolConfig: { functionCallingConfig: { mode: 'ANY', allowedFunctionNames: ['get_weather'] } },
      },
    },
  },
  {
    name: 'one call at a time',
    over: 'functions',
    said: {
      'openai-chat': { ...chatTools, parallel_tool_calls: false },
      'openai-responses': { ...responsesTools, parallel_tool_calls: false },
      'anthropic-messages': {
        ...messagesTools,
        tool_choice: { type: 'auto', disable_parallel_tool_use: true },
      },
    },
  },
  {
    name: 'calls and results',
    marker: /Kiel.*42 knots/s,
    said: {
      'openai-chat': {
        ...chatTools,
        messages: [user, chatCall, { role: 'tool', tool_call_id: 'call_1', content: '42 knots' }],
      },
      'openai-responses': {
        ...responsesTools,
        input: [
          responsesHello,
          responsesCall,
          { type: 'function_call_output', call_id: 'call_1', output: '42 knots' },
        ],
      },
      'anthropic-messages': result({ content: '42 knots' }),
      'google-gemini': {
        ...geminiTools,
        contents: [
          { role: 'user', parts: [{ text: 'Hello.' }] },
          { role: 'model', parts: [{ functionCall: { name: 'get_weather', args: { city: 'Kiel' } } }] },
          {
            role: 'user',
            parts: [{ functionResponse: { name: 'get_weather', response: { result: '42 knots' } } }],
          },
        ],
      },
    },
  },
  {
    name: 'image in a result',
    marker: new RegExp(png.slice(0, 40)),
    said: {
      'openai-responses': {
        ...responsesTools,
        input: [
          responsesHello,
          responsesCall,
          {
            type: 'function_call_output',
            call_id: 'call_1',
            output: [{ type: 'input_image', image_url: `data:image/png;base64,${png}` }],
          },
        ],
      },
      'anthropic-messages': result({
        content: [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: png } }],
      }),
    },
  },
  {
    name: 'result that is an error',
    over: 'calls and results',
    said: { 'anthropic-messages': result({ content: '42 knots', is_error: true }) },
  },
  {
    name: 'web search by the provider',
    marker: /web_?search|google_?search/i,
    said: {
      'openai-chat': { web_search_options: {} },
      'openai-responses': { tools: [{ type: 'web_search' }] },
      'anthropic-messages': { tools: [{ type: 'web_search_20250305', name: 'web_search' }] },
      'google-gemini': { tools: [{ googleSearch: {} }] },
    },
  },
  {
    name: 'code run by the provider',
    marker: /code_?(interpreter|execution)/i,
    said: {
      'openai-responses': { tools: [{ type: 'code_interpreter', container: { type: 'auto' } }] },
      'anthropic-messages': { tools: [{ type: 'code_execution_20250825', name: 'code_execution' }] },
      'google-gemini': { tools: [{ codeExecution: {} }] },
    },
  },
  {
    name: 'MCP servers',
    marker: /mcp\.example/,
    said: {
      'openai-responses': {
        tools: [
          {
            type: 'mcp',
            server_label: 'rivers',
            server_url: 'https://mcp.example',
            require_approval: 'never',
          },
        ],
      },
      'anthropic-messages': {
        mcp_servers: [{ type: 'url', name: 'rivers', url: 'https://mcp.example' }],
        tools: [{ type: 'mcp_toolset', mcp_server_name: 'rivers' }],
      },
    },
  },
];
