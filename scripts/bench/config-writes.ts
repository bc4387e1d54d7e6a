/** Calls the administration API; rejects for every answer that is no success. */
type Ask = (method: string, target: string, body?: object) => Promise<unknown>;

/** Configs that are made, changed and deleted, one after the other: each write depends on the one before. */
export class ConfigWrites {
  /** Writes that were answered. */
  done = 0;
  readonly #ask: Ask;
  /** Configs that were made and not deleted yet. */
  readonly #configs: string[] = [];
  #turn = 0;
  #workspace: string | undefined;

  constructor(ask: Ask) {
    this.#ask = ask;
  }

  /** In turn: one is made, it is changed three times, it is deleted. */
  async next(): Promise<void> {
    const turn = this.#turn++ % 5;
    const config = { retry: { attempts: turn } };
    const slug = turn === 4 ? this.#configs.shift() : this.#configs[0];
    if (turn === 0 || slug === undefined) {
      this.#workspace ??= await firstWorkspace(this.#ask);
      const made = await this.#ask('POST', '/v1/configs', {
        name: `steady ${this.done}`,
        config,
        workspace_id: this.#workspace,
      });
      const { data } = made as { readonly data?: { readonly slug?: string } };
      if (data?.slug !== undefined) this.#configs.push(data.slug);
    } else if (turn === 4) await this.#ask('DELETE', `/v1/configs/${slug}`);
    else await this.#ask('PUT', `/v1/configs/${slug}`, { config });
    this.done += 1;
  }
}

/** The id of a workspace of the organisation. */
export async function firstWorkspace(ask: Ask): Promise<string> {
  const { data } = (await ask('GET', '/v1/admin/workspaces')) as {
    readonly data: readonly { readonly id: string }[];
  };
  if (data[0] === undefined) throw new Error('The organisation has no workspace.');
  return data[0].id;
}
