import { Type, type TObject, type TProperties, type TSchema } from 'typebox';
import { componentReference } from './embed-schema.ts';

/** A schema that stands in the document under this name. */
export function component(name: string): TSchema {
  return Type.Unsafe<unknown>({ $ref: componentReference(name) });
}

/** One of these texts. */
export function oneOf(values: readonly string[], description?: string): TSchema {
  return Type.Unsafe<string>({
    type: 'string',
    enum: [...values],
    ...(description === undefined ? {} : { description }),
  });
}

/** A moment in Unix seconds. */
export function unixSeconds(description: string): TSchema {
  return Type.Integer({ description: `${description} Unix seconds.` });
}

/** A value that may also be null. */
export function orNull(schema: TSchema, description?: string): TSchema {
  return Type.Union([schema, Type.Null()], description === undefined ? {} : { description });
}

/** A list as providers answer with it. */
export function listOf(item: TSchema): TSchema {
  return Type.Object({
    object: Type.Literal('list'),
    data: Type.Array(item),
    has_more: Type.Optional(Type.Boolean()),
  });
}

/** An object with these members and any others. */
export function openObject(members: TProperties): TObject {
  return Type.Object(members, { additionalProperties: true });
}
