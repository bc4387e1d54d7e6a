import { Type, type Static } from '../../core/pipeline/plugin.ts';

const strict = { additionalProperties: false };

const Blocked = (what: string) =>
  Type.Optional(
    Type.Array(Type.String(), { maxItems: 10000, description: `${what} Wins over the allowed list.` }),
  );

// An empty allow list could mean "nothing" or "not set": it is refused, so that nobody has to guess.
const Allowed = (what: string) =>
  Type.Optional(Type.Array(Type.String(), { minItems: 1, maxItems: 10000, description: what }));

const Primitive = Type.Union([Type.String(), Type.Number(), Type.Boolean(), Type.Null()]);

/** Options of `request-parameters`, spelled as in the specification. */
export const RequestParametersSchema = Type.Object(
  {
    tools: Type.Optional(
      Type.Object(
        {
          blockedTypes: Blocked('Tool types that are refused (`web_search`).'),
          allowedTypes: Allowed(
            'The only tool types that may be used. `functions` count as `function`; a tool without a type counts as `function` when it describes one, else as `custom`.',
          ),
          blockedFunctionNames: Blocked('Function names that are refused, offered or chosen.'),
          allowedFunctionNames: Allowed('The only function names that may be offered or chosen.'),
        },
        { ...strict, description: 'Rules for tools, functions and the choice of one.' },
      ),
    ),
    params: Type.Optional(
      Type.Object(
        {
          blockedKeys: Blocked('Top-level keys of the body that are refused, whatever their value.'),
          allowedKeys: Allowed(
            'The only top-level keys that may be sent; `model` and `messages` must be listed too.',
          ),
          values: Type.Optional(
            Type.Record(
              Type.String(),
              Type.Object(
                {
                  blockedValues: Type.Optional(
                    Type.Array(Primitive, {
                      maxItems: 10000,
                      description: 'Values that are refused. Wins over the allowed list.',
                    }),
                  ),
                  allowedValues: Type.Optional(
                    Type.Array(Primitive, {
                      minItems: 1,
                      maxItems: 10000,
                      description:
                        'The only values that may be sent. Lists and objects are never among them.',
                    }),
                  ),
                },
                strict,
              ),
              {
                description:
                  'Rules for the value of a top-level key. They do not ask for the key to be there.',
              },
            ),
          ),
        },
        { ...strict, description: 'Rules for the top-level keys of the body.' },
      ),
    ),
  },
  strict,
);

/** The options as written. */
export type RequestParametersOptions = Static<typeof RequestParametersSchema>;
