import { parseJson, writeJson } from '../../core/base/json.ts';
import { Type, type Static } from '../../core/pipeline/plugin.ts';
import type { ConfigData } from '../../core/ports/record-kinds.ts';
import { plainObject } from './plain-json.ts';
import { refusedBody } from './refused-body.ts';
import { Name, strict } from './text-schema.ts';

const Config = Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.String({ maxLength: 65_536 })], {
  description:
    'A config as requests bring it along (see configs.md), as an object or as JSON in a text; 64 KiB at the most.',
  examples: [{ retry: { attempts: 2 } }],
});
const IsDefault = Type.Optional(
  Type.Union([Type.Literal(0), Type.Literal(1), Type.Boolean()], {
    description:
      'Whether requests of the workspace begin with it when nothing else says otherwise. One config of a workspace at the most does; it takes the place of the one that did.',
  }),
);
const ConfigName = Name('For people.');
/** `is_default` is what some clients make of `isDefault`. */
const defaults = { isDefault: IsDefault, is_default: IsDefault };

/** What makes a config. */
export const CreateConfig = Type.Object(
  {
    name: ConfigName,
    config: Config,
    ...defaults,
    workspace_id: Type.Optional(
      Name(
        'Id or slug of its workspace. Needed with keys of the organisation; others make configs of their own.',
      ),
    ),
  },
  strict,
);

/** What changes one; what is not given stays. */
export const UpdateConfig = Type.Object(
  {
    slug: Type.Optional(Name('As in the path: some clients say it here as well.')),
    name: Type.Optional(ConfigName),
    config: Type.Optional(Config),
    ...defaults,
    status: Type.Optional(
      Type.Union([Type.Literal('active'), Type.Literal('archived')], {
        description: '`archived` is what DELETE makes of it; `active` brings it back.',
      }),
    ),
  },
  strict,
);

/** The config of a body as JSON, for the router to check. */
export function configText(config: Static<typeof Config>): string {
  return typeof config === 'string' ? config : writeJson(config);
}

/** What a record keeps of the text of a valid config. Throws `invalid_request` for whole numbers beyond 2^53. */
export function storedConfig(text: string): ConfigData['config'] {
  return plainObject(parseJson(text) as Readonly<Record<string, unknown>>, '/config');
}

/** Whether the body makes it the default of its workspace; undefined when it does not say. Throws when it says both. */
export function saysDefault({
  isDefault,
  is_default: other,
}: Static<typeof UpdateConfig>): boolean | undefined {
  const said = isDefault ?? other;
  if (isDefault !== undefined && other !== undefined && Boolean(isDefault) !== Boolean(other))
    throw refusedBody([{ path: '/isDefault', message: 'is not what is_default says; give it once' }]);
  return said === undefined ? undefined : Boolean(said);
}
