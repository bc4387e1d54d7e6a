import { didYouMean, listWords, quoted } from '../base/did-you-mean.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { Directory, KeyRecord } from '../ports/directory.ts';

/** Upper bound of the models that a refusal names. */
const mostNamed = 10;

/** A list of models, and the owner that it binds, for messages: `service key "ci"`. */
interface ModelList {
  readonly owner: string;
  readonly models: readonly string[];
}

/** Models that a request names, and why it may run others, as the end of a sentence. */
interface NamedModels {
  readonly names: readonly string[];
  readonly untold: string | undefined;
}

/** The models that requests of a key may ask for: those that its key and its workspace both allow. */
export class AllowedModels {
  readonly #lists: readonly ModelList[];

  private constructor(lists: readonly ModelList[]) {
    this.#lists = lists;
  }

  /** Undefined for a key that may ask for every model. */
  static of(key: KeyRecord | undefined, directory: Pick<Directory, 'defaultsOf'>): AllowedModels | undefined {
    if (key === undefined) return undefined;
    const own = key.defaults?.allowedModels;
    const shared = directory.defaultsOf(key.organisationId, key.workspaceId).own?.allowedModels;
    if (own === undefined && shared === undefined) return undefined;
    const lists: ModelList[] = [];
    if (own !== undefined) lists.push({ owner: `service key "${key.name}"`, models: own });
    if (shared !== undefined) lists.push({ owner: `workspace ${key.workspaceId}`, models: shared });
    return new AllowedModels(lists);
  }

  allows(model: string): boolean {
    return this.#lists.every(({ models }) => isListed(model, models));
  }

  /** Throws `model_not_allowed` for a request that names another model, or may run one that the gateway cannot read. */
  require({ names, untold }: NamedModels): void {
    for (const list of this.#lists) {
      const other = names.find((name) => !isListed(name, list.models));
      if (other !== undefined) throw notAllowed(list.owner, other, list.models);
      if (untold !== undefined) throw untoldModel(list.owner, untold);
    }
  }

  /** Throws `config_override_denied`: a config that a request brings could name another model. */
  refuseOwnConfig(): never {
    const owner = this.#lists[0]?.owner ?? '';
    throw new GatewayError(
      'config_override_denied',
      `The ${owner} allows only the models of a list (defaults.allowed_models), so its requests bring no config of their own. Name a saved config, or leave the config header out.`,
      { param: 'config' },
    );
  }
}

/** Names by which lists may know a model: as the request writes it, without `@slug/`, and without the collection `models/`. */
export function namesOfModel(model: string): readonly string[] {
  const bare = model.startsWith('@') ? model.slice(model.indexOf('/') + 1) : model;
  const collection = bare.lastIndexOf('models/');
  return [model, bare, collection < 0 ? bare : bare.slice(collection + 'models/'.length)];
}

function isListed(model: string, list: readonly string[]): boolean {
  const names = namesOfModel(model);
  return list.some((one) => {
    const start = one.endsWith('*') ? one.slice(0, -1) : undefined;
    return names.some((name) => (start === undefined ? name === one : name.startsWith(start)));
  });
}

/** The refusal of a model that its owner's list lacks; `none` is the remedy for an empty list. */
export function notAllowed(
  owner: string,
  model: string,
  list: readonly string[],
  none = 'It allows none.',
): GatewayError {
  const meant = didYouMean(model, list);
  const all = listWords(list.map(quoted), 'and', mostNamed);
  const hint =
    meant !== undefined ? `Did you mean ${quoted(meant)}?` : all === '' ? none : `It allows ${all}.`;
  const asked = model === '' ? 'a request that names no model' : `the model ${quoted(model)}`;
  return new GatewayError('model_not_allowed', `The ${owner} does not allow ${asked}. ${hint}`, {
    param: 'model',
  });
}

/** The refusal of a request whose model cannot be determined; `why` ends the sentence. */
export function untoldModel(owner: string, why: string, remedy = ''): GatewayError {
  return new GatewayError(
    'model_not_allowed',
    `The ${owner} allows only the models of a list, and this request may run another one: ${why}. Name one model where the gateway can read it${remedy}.`,
    { param: 'model' },
  );
}
