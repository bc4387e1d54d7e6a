import { Type } from 'typebox';

/** Objects of bodies, queries and files reject unknown members. */
export const strict = { additionalProperties: false };

/** A name or other short text: 1 to 255 characters. */
export const Name = (description: string) => Type.String({ minLength: 1, maxLength: 255, description });

/** A longer text for people; may be empty. */
export const Description = Type.String({ maxLength: 1000, description: 'For people.' });

/** An id or a slug within a path. */
export const Identifier = Type.String({ minLength: 1, maxLength: 255, pattern: '^[A-Za-z0-9_.:-]+$' });

/** A user within a path: id or e-mail address. */
export const Person = Type.String({
  minLength: 1,
  maxLength: 320,
  pattern: '^[^\\s/\\\\]+$',
  description: 'The id or the e-mail address.',
});

/** Named values that requests carry to the logs. */
export const Metadata = Type.Record(Type.String(), Type.String({ maxLength: 1024 }), {
  maxProperties: 50,
  propertyNames: { minLength: 1, maxLength: 255 },
  description: 'At most 50 named texts.',
});

/** Models that requests of a key or workspace may ask for. */
export const AllowedModelNames = Type.Array(Type.String({ minLength: 1, maxLength: 255 }), {
  minItems: 1,
  maxItems: 1000,
  description:
    'Models that its requests may ask for, as requests name them, with or without the `@slug/` before; a `*` at the end stands for any text. A request for another model, or one whose model cannot be read (a batch), is refused with 403 `model_not_allowed`, and one that brings a config of its own with `config_override_denied`. What a saved config makes of an allowed request is not judged. Default: all.',
});

/** The value, or null. */
export const orNull = <S extends Parameters<typeof Type.Union>[0][number]>(schema: S) =>
  Type.Union([schema, Type.Null()]);

/** A time, ISO 8601 with a time zone. */
export const Instant = (description: string) => Type.String({ format: 'date-time', description });

/** Owner of a record: the API, or the configuration file. */
export const ManagedBy = Type.Union([Type.Literal('api'), Type.Literal('file')], {
  description: '`file`: defined in the configuration file, and changed only there.',
});

/** `properties` repeats the name because strict ajv wants every required property declared where it is required. */
export const needs = (property: string) => ({ required: [property], properties: { [property]: {} } });
