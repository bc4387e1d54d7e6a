/** The tools, resources and prompts that the official conformance suite asks a server for, by the names that it asks with. */
import {
  acceptedContent,
  CLIENT_CAPABILITIES_META_KEY,
  createRequestStateCodec,
  fromJsonSchema,
  inputRequired,
  McpServer,
  ResourceTemplate,
  type CallToolResult,
  type ClientCapabilities,
  type ContentBlock,
  type ElicitRequestFormParams,
  type GetPromptResult,
  type InputRequests,
  type InputRequiredResult,
  type JsonSchemaType,
  type ServerContext,
} from '@modelcontextprotocol/server';
import { setTimeout as pause } from 'node:timers/promises';
import { z } from 'zod';

/** How a server of the suite reaches what stands around it. */
export interface Surroundings {
  /** Ends the stream on which the answer to this request would come; the client resumes it. */
  endStream(context: ServerContext): void;
  /** Resolves when the test lets tools that are held go on. */
  held(): Promise<void>;
  /** Tells clients of the stateless protocol that a list has changed. */
  changed(list: 'tools' | 'prompts'): void;
}

type Answer = CallToolResult | InputRequiredResult;
/** Fields of a form by name. */
type Fields = ElicitRequestFormParams['requestedSchema']['properties'];
type Handler = (context: ServerContext) => Answer | Promise<Answer>;

/** A PNG of one red pixel. */
const pixel =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==';
/** A WAV file without a sound. */
const silence = 'UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=';

/** State that clients carry between rounds, signed, so that a changed one is refused. */
const stateCodec = createRequestStateCodec<Record<string, unknown>>({
  key: crypto.getRandomValues(new Uint8Array(32)),
});

const text = (said: string): CallToolResult => ({ content: [{ type: 'text', text: said }] });
const nothing = z.object({});

/** A form with one field. */
const form = (message: string, field: string, schema: Fields[string] = { type: 'string' }) =>
  inputRequired.elicit({
    message,
    requestedSchema: { type: 'object', properties: { [field]: schema }, required: [field] },
  });
const askName = () => form('What is your name?', 'name');
const askModel = (question: string) =>
  inputRequired.createMessage({
    messages: [{ role: 'user', content: { type: 'text', text: question } }],
    maxTokens: 100,
  });

/** One server, of a session or of a request. */
export function conformanceServer(surroundings: Surroundings): McpServer {
  const server = new McpServer(
    { name: 'conformance', version: '1.0.0' },
    {
      capabilities: {
        tools: { listChanged: true },
        resources: { subscribe: true, listChanged: true },
        prompts: { listChanged: true },
        logging: {},
        completions: {},
      },
      requestState: { verify: stateCodec.verify },
    },
  );
  const tool = (name: string, handler: Handler): void => {
    server.registerTool(name, { description: `Of the suite: ${name}`, inputSchema: nothing }, (_, context) =>
      handler(context),
    );
  };
  addContents(tool);
  addStreams(tool, surroundings);
  addQuestions(server, tool);
  addRounds(tool);
  addSchemas(server);
  addResources(server);
  addPrompts(server);
  server.server.setRequestHandler('logging/setLevel', () => ({}));
  server.server.setRequestHandler('completion/complete', () => ({
    completion: { values: ['paris', 'park', 'party'], total: 3, hasMore: false },
  }));
  return server;
}

type AddTool = (name: string, handler: Handler) => void;

function addContents(tool: AddTool): void {
  const image = { type: 'image', data: pixel, mimeType: 'image/png' } as const;
  tool('test_simple_text', () => text('This is a simple text response for testing.'));
  tool('test_image_content', () => ({ content: [image] }));
  tool('test_audio_content', () => ({ content: [{ type: 'audio', data: silence, mimeType: 'audio/wav' }] }));
  tool('test_embedded_resource', () => ({
    content: [
      {
        type: 'resource',
        resource: {
          uri: 'test://embedded-resource',
          mimeType: 'text/plain',
          text: 'This is an embedded resource content.',
        },
      },
    ],
  }));
  tool('test_multiple_content_types', () => ({
    content: [
      { type: 'text', text: 'Multiple content types test:' },
      image,
      {
        type: 'resource',
        resource: {
          uri: 'test://mixed-content-resource',
          mimeType: 'application/json',
          text: JSON.stringify({ test: 'data', value: 123 }),
        },
      },
    ],
  }));
  tool('test_error_handling', () => {
    throw new Error('This tool intentionally returns an error for testing');
  });
}

/** Tools that say something before they answer. */
function addStreams(tool: AddTool, { endStream, held, changed }: Surroundings): void {
  tool('test_tool_with_logging', async ({ mcpReq }) => {
    for (const data of ['Tool execution started', 'Tool processing data', 'Tool execution completed']) {
      await mcpReq.notify({ method: 'notifications/message', params: { level: 'info', data } });
      await pause(50);
    }
    return text('Tool with logging executed successfully');
  });
  tool('test_tool_with_progress', async ({ mcpReq }) => {
    const progressToken = mcpReq._meta?.progressToken;
    for (const progress of progressToken === undefined ? [] : [0, 50, 100]) {
      const params = { progressToken, progress, total: 100, message: `Completed step ${progress} of 100` };
      await mcpReq.notify({ method: 'notifications/progress', params });
      await pause(50);
    }
    return text(String(progressToken));
  });
  tool('test_reconnection', async (context) => {
    endStream(context);
    await pause(100);
    return text('Reconnection test completed successfully.');
  });
  tool('test_held', async () => {
    await held();
    return text('It went on.');
  });
  tool('test_streaming_elicitation', () => text('Nothing was asked.'));
  tool('test_logging_tool', async ({ mcpReq }) => {
    await mcpReq.log('info', 'Said to those alone that asked for it');
    return text('Logged.');
  });
  for (const list of ['tools', 'prompts'] as const) {
    tool(`test_trigger_${list.slice(0, -1)}_change`, () => {
      changed(list);
      return text(`${list} changed`);
    });
  }
}

/** Tools that ask the client in a request of their own, as versions before 2026-07-28 do. */
function addQuestions(server: McpServer, tool: AddTool): void {
  const elicit = async (
    { mcpReq }: ServerContext,
    message: string,
    properties: Fields,
    required: string[] = [],
  ): Promise<CallToolResult> => {
    const params = { message, requestedSchema: { type: 'object' as const, properties, required } };
    const { action, content = {} } = await mcpReq.send({ method: 'elicitation/create', params });
    return text(`Elicitation completed: action=${action}, content=${JSON.stringify(content)}`);
  };
  server.registerTool(
    'test_sampling',
    { description: 'Asks the model of the client', inputSchema: z.object({ prompt: z.string() }) },
    async ({ prompt }, { mcpReq }) => {
      const params = {
        messages: [{ role: 'user' as const, content: { type: 'text' as const, text: prompt } }],
        maxTokens: 100,
      };
      const { content } = await mcpReq.send({ method: 'sampling/createMessage', params });
      return text(`LLM response: ${JSON.stringify(content)}`);
    },
  );
  server.registerTool(
    'test_elicitation',
    { description: 'Asks the user', inputSchema: z.object({ message: z.string() }) },
    ({ message }, context) =>
      elicit(context, message, { response: { type: 'string', description: "User's response" } }, [
        'response',
      ]),
  );
  tool('test_elicitation_sep1034_defaults', (context) =>
    elicit(context, 'Please review the fields', {
      name: { type: 'string', default: 'John Doe' },
      age: { type: 'integer', default: 30 },
      score: { type: 'number', default: 95.5 },
      status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
      verified: { type: 'boolean', default: true },
    }),
  );
  const options = ['option1', 'option2', 'option3'];
  const titled = ['First', 'Second', 'Third'].map((title, index) => ({ const: `value${index + 1}`, title }));
  tool('test_elicitation_sep1330_enums', (context) =>
    elicit(context, 'Please select', {
      untitledSingle: { type: 'string', enum: options },
      titledSingle: { type: 'string', oneOf: titled },
      legacyEnum: {
        type: 'string',
        enum: ['opt1', 'opt2', 'opt3'],
        enumNames: ['Option One', 'Option Two', 'Option Three'],
      },
      untitledMulti: { type: 'array', minItems: 1, maxItems: 3, items: { type: 'string', enum: options } },
      titledMulti: { type: 'array', minItems: 1, maxItems: 3, items: { anyOf: titled } },
    }),
  );
}

/** Tools that ask the client in their answers, as the version 2026-07-28 does. */
function addRounds(tool: AddTool): void {
  const mint = (state: Record<string, unknown>) => stateCodec.mint({ ...state, nonce: crypto.randomUUID() });
  tool('test_missing_capability', ({ mcpReq }) =>
    mcpReq.inputResponses?.['llm_answer'] === undefined
      ? inputRequired({ inputRequests: { llm_answer: askModel('Reply with the single word: pong') } })
      : text('answered'),
  );
  tool('test_input_required_result_elicitation', ({ mcpReq }) => {
    const name = acceptedContent<{ name: string }>(mcpReq.inputResponses, 'user_name')?.name;
    return typeof name === 'string'
      ? text(`Hello, ${name}!`)
      : inputRequired({ inputRequests: { user_name: askName() } });
  });
  tool('test_input_required_result_sampling', ({ mcpReq }) => {
    const answered = mcpReq.inputResponses?.['capital_question'];
    return answered === undefined
      ? inputRequired({ inputRequests: { capital_question: askModel('What is the capital of France?') } })
      : text(`Sampling response: ${JSON.stringify(answered)}`);
  });
  tool('test_input_required_result_list_roots', ({ mcpReq }) => {
    const answered = mcpReq.inputResponses?.['client_roots'];
    return answered === undefined
      ? inputRequired({ inputRequests: { client_roots: inputRequired.listRoots() } })
      : text(`Roots: ${JSON.stringify(answered)}`);
  });
  for (const kind of ['request_state', 'tampered_state']) {
    tool(`test_input_required_result_${kind}`, async ({ mcpReq }) => {
      const confirmed = acceptedContent(mcpReq.inputResponses, 'confirm');
      if (confirmed !== undefined && mcpReq.requestState() !== undefined)
        return text('state-ok, integrity-ok');
      const inputRequests = { confirm: form('Please confirm', 'ok', { type: 'boolean' }) };
      return inputRequired({ inputRequests, requestState: await mint({ kind }) });
    });
  }
  tool('test_input_required_result_multiple_inputs', async ({ mcpReq }) => {
    const inputRequests = {
      user_name: askName(),
      greeting: askModel('Generate a greeting'),
      client_roots: inputRequired.listRoots(),
    };
    const given = mcpReq.inputResponses ?? {};
    return Object.keys(inputRequests).every((name) => given[name] !== undefined)
      ? text(`All answered: ${JSON.stringify(given)}`)
      : inputRequired({ inputRequests, requestState: await mint({}) });
  });
  tool('test_input_required_result_multi_round', async ({ mcpReq }) => {
    const state = mcpReq.requestState<Record<string, unknown>>();
    const round = state?.['round'];
    if (round === undefined) {
      const inputRequests = { step1: form('Step 1: your name?', 'name') };
      return inputRequired({ inputRequests, requestState: await mint({ round: 1 }) });
    }
    if (round === 1) {
      const inputRequests = { step2: form('Step 2: your favourite colour?', 'color') };
      return inputRequired({ inputRequests, requestState: await mint({ round: 2 }) });
    }
    return text('Multi-round complete');
  });
  tool('test_input_required_result_capabilities', ({ mcpReq }) => {
    if (mcpReq.inputResponses !== undefined) return text('Answered');
    const envelope: Readonly<Record<string, unknown>> = { ...mcpReq.envelope };
    const able = envelope[CLIENT_CAPABILITIES_META_KEY] as ClientCapabilities | undefined;
    const inputRequests: InputRequests = {
      ...(able?.elicitation && { user_name: askName() }),
      ...(able?.sampling && { greeting: askModel('Generate a greeting') }),
      ...(able?.roots && { client_roots: inputRequired.listRoots() }),
    };
    return Object.keys(inputRequests).length === 0
      ? text('There is nothing that the client can be asked.')
      : inputRequired({ inputRequests });
  });
}

const headerSchema = {
  type: 'object',
  properties: { region: { type: 'string', 'x-mcp-header': 'Region' }, level: { type: 'integer' } },
} as JsonSchemaType;

/** Schemas that must arrive as they are. */
function addSchemas(server: McpServer): void {
  const said = (given: unknown): CallToolResult => text(`Called with ${JSON.stringify(given)}`);
  server.registerTool(
    'json_schema_2020_12_tool',
    {
      description: 'Keywords of JSON Schema 2020-12',
      inputSchema: fromJsonSchema({
        $schema: 'https://json-schema.org/draft/2020-12/schema',
        type: 'object',
        $defs: {
          address: {
            $anchor: 'addressDef',
            type: 'object',
            properties: { street: { type: 'string' }, city: { type: 'string' } },
          },
        },
        properties: {
          name: { type: 'string' },
          address: { $ref: '#/$defs/address' },
          contactMethod: { type: 'string', enum: ['phone', 'email'] },
          phone: { type: 'string' },
          email: { type: 'string' },
        },
        allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
        if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
        then: { required: ['phone'] },
        else: { required: ['email'] },
        additionalProperties: false,
      }),
    },
    said,
  );
  server.registerTool(
    'test_x_mcp_header',
    {
      description: 'An argument that is a header as well',
      inputSchema: fromJsonSchema(headerSchema),
    },
    said,
  );
}

function addResources(server: McpServer): void {
  const fixed = (name: string, mimeType: string, content: { text: string } | { blob: string }): void => {
    const uri = `test://${name}`;
    server.registerResource(
      name,
      uri,
      { title: name, description: `The resource ${name}`, mimeType },
      () => ({
        contents: [{ uri, mimeType, ...content }],
      }),
    );
  };
  fixed('static-text', 'text/plain', { text: 'This is the content of the static text resource.' });
  fixed('static-binary', 'image/png', { blob: pixel });
  fixed('watched-resource', 'text/plain', { text: 'Watched resource content' });
  server.registerResource(
    'template',
    new ResourceTemplate('test://template/{id}/data', { list: undefined }),
    { description: 'A resource with a parameter', mimeType: 'application/json' },
    (uri, { id }) => ({
      contents: [
        {
          uri: uri.toString(),
          mimeType: 'application/json',
          text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${String(id)}` }),
        },
      ],
    }),
  );
  server.server.setRequestHandler('resources/subscribe', () => ({}));
  server.server.setRequestHandler('resources/unsubscribe', () => ({}));
}

function addPrompts(server: McpServer): void {
  const user = (...contents: ContentBlock[]): GetPromptResult => ({
    messages: contents.map((content) => ({ role: 'user', content })),
  });
  const saying = (said: string): ContentBlock => ({ type: 'text', text: said });
  server.registerPrompt('test_simple_prompt', { description: 'Without arguments' }, () =>
    user(saying('This is a simple prompt for testing.')),
  );
  server.registerPrompt(
    'test_prompt_with_arguments',
    { description: 'With arguments', argsSchema: z.object({ arg1: z.string(), arg2: z.string() }) },
    ({ arg1, arg2 }) => user(saying(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`)),
  );
  server.registerPrompt(
    'test_prompt_with_embedded_resource',
    { description: 'With a resource', argsSchema: z.object({ resourceUri: z.string() }) },
    ({ resourceUri: uri }) =>
      user(
        { type: 'resource', resource: { uri, mimeType: 'text/plain', text: 'Embedded content' } },
        saying('Please process the embedded resource above.'),
      ),
  );
  server.registerPrompt('test_prompt_with_image', { description: 'With an image' }, () =>
    user({ type: 'image', data: pixel, mimeType: 'image/png' }, saying('Please analyze the image above.')),
  );
  server.registerPrompt(
    'test_input_required_result_prompt',
    { description: 'Asks before it answers', argsSchema: nothing },
    (_, { mcpReq }) => {
      const context = acceptedContent<{ context: string }>(mcpReq.inputResponses, 'user_context')?.context;
      return context === undefined
        ? inputRequired({ inputRequests: { user_context: form('Which context?', 'context') } })
        : user(saying(`Use the context: ${context}`));
    },
  );
}
