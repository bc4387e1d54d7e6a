import { Type, type TSchema } from 'typebox';
import { checkValue, type CheckedValue } from './check-value.ts';
import type { ConfigSource } from './config-source.ts';

const NoOptions = Type.Object({}, { additionalProperties: false });

/**
 * Validates a plugin's options where they stand in the configuration (`pointer`), with the places, suggestions
 * and spellings of the configuration itself. Without a schema only an empty object is allowed. A schema that
 * does not compile is a problem too.
 */
export function validateOptions(
  schema: TSchema | undefined,
  value: unknown,
  pointer: string,
  source: ConfigSource,
): CheckedValue {
  try {
    return checkValue(schema ?? NoOptions, value ?? {}, { pointer, source });
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const problem = {
      ...source.locate(pointer, 'key'),
      path: pointer,
      message: `the schema of these options is not valid (${reason}); correct it in the plugin's code`,
    };
    return { value: {}, problems: [problem] };
  }
}
