import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Type } from 'typebox';
import { configReference } from './generate-config-reference.ts';

describe('configReference', () => {
  it('lists every key of the file and of the plugins, with bounds and defaults', async () => {
    const text = await configReference([
      {
        name: 'cache',
        description: 'Answers again.',
        schema: Type.Object({
          mode: Type.Union([Type.Literal('a|b'), Type.Literal('c')], { description: 'How.' }),
          targets: Type.Optional(
            Type.Array(Type.Object({ weight: Type.Integer({ default: 1, minimum: 0 }) })),
          ),
        }),
      },
      { name: 'plain' },
    ]);
    const row = (key: string): string =>
      (text.split('\n').find((line) => line.startsWith(`| \`${key}\``)) ?? '').replaceAll(/ +/g, ' ');
    assert.match(
      row('server.port'),
      /\| a whole number from 0 to 65535 \| `8787` \| Port; 0 picks a free one/,
    );
    assert.match(row('storage.journal.flush_ms'), /\| `20` \|/);
    assert.match(row('providers.<name>.api_key'), /text that is not empty/);
    assert.match(row('pipelines[].match.path'), /path pattern/);
    assert.match(row('on_error'), /"fail" or "skip"/);
    assert.equal(row('mode'), '| `mode` | "a\\|b" or "c" | required | How. |');
    assert.equal(row('targets[].weight'), '| `targets[].weight` | a whole number of at least 0 | `1` | |');
    assert.match(text, /### `cache`\n\nAnswers again\./);
    assert.match(text, /### `plain`\n\nIt has no options of its own\./);
  });

  it('gives the same text for the same plugins', async () => {
    assert.equal(await configReference([]), await configReference([]));
  });
});
