import { faultsOf, type Fault, type Schema } from '@/editor/json-schema';
import { list } from '@/lib/format';
import { isObject } from '@/lib/json';
import { checks } from '@/texts/checks';
import { playground } from '@/texts/playground';

/** As much of JSON Schema as tools use. */
const node = { $ref: '#/$defs/schema' };
const types = ['object', 'array', 'string', 'number', 'integer', 'boolean', 'null'];
const toolsSchema: Schema = {
  type: 'array',
  maxItems: 128,
  items: {
    type: 'object',
    required: ['type', 'function'],
    properties: {
      type: { const: 'function' },
      function: {
        type: 'object',
        required: ['name'],
        additionalProperties: false,
        properties: {
          name: {
            type: 'string',
            pattern: '^[A-Za-z0-9_-]{1,64}$',
            'x-expected': playground.toolName,
          },
          description: { type: 'string' },
          strict: { type: 'boolean' },
          parameters: {
            type: 'object',
            required: ['type'],
            properties: { type: { const: 'object' }, ...membersOfSchema() },
          },
        },
      },
    },
  },
  $defs: {
    schema: {
      type: 'object',
      properties: {
        type: { anyOf: [{ enum: types }, { type: 'array' }], 'x-expected': checks.oneOf(list(types)) },
        ...membersOfSchema(),
      },
    },
  },
};

function membersOfSchema(): Schema {
  return {
    description: { type: 'string' },
    properties: { type: 'object', additionalProperties: node },
    items: node,
    required: { type: 'array', items: { type: 'string' } },
    enum: { type: 'array', minItems: 1 },
  };
}

/** A tool to begin with. */
export const exampleTools = JSON.stringify(
  [
    {
      type: 'function',
      function: {
        name: 'get_weather',
        description: playground.exampleTool,
        parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
      },
    },
  ],
  null,
  2,
);

interface Tools {
  /** Empty while there are faults. */
  readonly list: readonly unknown[];
  readonly faults: readonly string[];
}

const mostShown = 5;

/** The tools of a text, with what is wrong in it. */
export function toolsOf(text: string): Tools {
  if (text.trim() === '') return { list: [], faults: [] };
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return { list: [], faults: [error instanceof Error ? error.message : String(error)] };
  }
  const faults = [...faultsOf(value, toolsSchema).map(written), ...moreFaults(value)].slice(0, mostShown);
  return { list: faults.length === 0 && Array.isArray(value) ? value : [], faults };
}

/** What the schema of tools cannot say. */
function moreFaults(value: unknown): readonly string[] {
  const seen = new Set<unknown>();
  return (Array.isArray(value) ? value : []).flatMap((tool: unknown, index): readonly string[] => {
    const { name, parameters } = isObject(tool) && isObject(tool['function']) ? tool['function'] : {};
    const twice = seen.has(name) && name !== undefined;
    seen.add(name);
    const { properties, required } = isObject(parameters) ? parameters : {};
    const known = isObject(properties) ? properties : {};
    const missing = (Array.isArray(required) ? required : []).filter(
      (one) => typeof one === 'string' && !Object.hasOwn(known, one),
    );
    return [
      ...(twice ? [`[${index}].function.name: ${checks.toolTwice}`] : []),
      ...missing.map((one) => `[${index}].function.parameters.required: ${checks.noProperty(String(one))}`),
    ];
  });
}

/** The faults of a call's arguments, by the schema of its tool. */
export function callFaults(
  call: { readonly name: string; readonly arguments: string },
  tools: readonly unknown[],
): readonly string[] {
  let value: unknown;
  try {
    value = JSON.parse(call.arguments || '{}');
  } catch (error) {
    return [error instanceof Error ? error.message : String(error)];
  }
  const own = tools.find(
    (one) => isObject(one) && isObject(one['function']) && one['function']['name'] === call.name,
  );
  if (own === undefined) return [checks.noTool(call.name.slice(0, 64))];
  const schema = isObject(own) && isObject(own['function']) ? own['function']['parameters'] : undefined;
  if (!isObject(schema)) return [];
  try {
    return faultsOf(value, schema).map(written).slice(0, mostShown);
  } catch {
    // A pattern of the tool is none for this browser.
    return [];
  }
}

/** A fault with its place: `[0].function.name: Expected …`. */
function written({ place, message }: Fault): string {
  const path = place
    .map((step) => (typeof step === 'number' ? `[${step}]` : `.${step.slice(0, 60)}`))
    .join('')
    .replace(/^\./, '');
  return path === '' ? message : `${path}: ${message}`;
}
