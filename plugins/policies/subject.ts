import type { RequestContext } from '../../core/pipeline/plugin.ts';
import type { ToolCall } from '../../core/pipeline/tool-calls.ts';
import type { Directory, KeyRecord } from '../../core/ports/directory.ts';
import { decodePercent } from '../../core/base/percent.ts';

/** A request as policies see it, before routing, or one call of a tool within it. */
export class Subject {
  readonly context: RequestContext;
  readonly key: KeyRecord;
  readonly call: Pick<ToolCall, 'server' | 'tool'> | undefined;
  private readonly directory: Directory;

  constructor(context: RequestContext, key: KeyRecord, directory: Directory, call?: Subject['call']) {
    this.context = context;
    this.key = key;
    this.directory = directory;
    this.call = call;
  }

  /** Without the `@slug/` of a provider. */
  get model(): string {
    const { addressed } = this;
    return addressed === undefined ? this.named : this.named.slice(addressed.length + 2);
  }

  /** From the header, or from the model; the provider that a config chooses is not known yet. */
  get provider(): string {
    const named = this.context.service('provider') || this.context.service('virtual-key');
    return this.slugOf(withoutAt(named ?? '') || this.addressed);
  }

  get virtualKey(): string {
    const { context } = this;
    const header = context.service('virtual-key');
    if (header) return this.slugOf(withoutAt(header));
    const provider = context.service('provider') ?? '';
    if (provider !== '') return provider.startsWith('@') ? this.slugOf(provider.slice(1)) : '';
    return this.slugOf(this.addressed);
  }

  /** Slug of the named config; empty for one that the request carries inline. */
  get config(): string {
    const { key, directory } = this;
    const header = this.context.service('config')?.trim();
    if (header?.startsWith('{') === true) return '';
    const place = { organisationId: key.organisationId, workspaceId: key.workspaceId };
    const named =
      header ||
      key.defaults?.configId ||
      directory.defaultsOf(key.organisationId, key.workspaceId).configId ||
      '';
    return named === '' ? '' : (directory.record('config', place, named)?.slug ?? named);
  }

  /** Slug of the prompt, without the requested version. */
  get prompt(): string {
    const { context, key } = this;
    const named = context.facts.prompt || promptOfPath(context.path);
    const at = named.indexOf('@');
    const name = at === -1 ? named : named.slice(0, at);
    const place = { organisationId: key.organisationId, workspaceId: key.workspaceId };
    return name === '' ? '' : (this.directory.record('prompt', place, name)?.slug ?? name);
  }

  /** The model as the request names it. */
  private get named(): string {
    const { context } = this;
    const { endpoint, body } = context;
    if (endpoint.id === 'generate-content') return decodePercent(modelOfPath.exec(context.path)?.[1] ?? '');
    if (endpoint.id === 'realtime') return new URLSearchParams(context.query).get('model') ?? '';
    const json = body.loaded ? body.json : undefined;
    if (typeof json !== 'object' || json === null || Array.isArray(json)) return '';
    const { model } = json;
    return typeof model === 'string' ? model : '';
  }

  /** The provider in `@slug/model`. */
  private get addressed(): string | undefined {
    const { named } = this;
    const end = named.startsWith('@') ? named.indexOf('/') : -1;
    return end > 1 ? named.slice(1, end) : undefined;
  }

  private slugOf(name: string | undefined): string {
    if (name === undefined || name === '') return '';
    const place = { organisationId: this.key.organisationId, workspaceId: this.key.workspaceId };
    return this.directory.record('provider', place, name)?.slug ?? name;
  }
}

const modelOfPath = /(?:models|endpoints)\/(.+):\w+$/i;
const promptPath = /^\/prompts\/([^/]+)\/(?:completions|render)$/;

function promptOfPath(path: string): string {
  return path.startsWith('/prompts/') ? decodePercent(promptPath.exec(path)?.[1] ?? '') : '';
}

function withoutAt(name: string): string {
  return name.startsWith('@') ? name.slice(1) : name;
}
