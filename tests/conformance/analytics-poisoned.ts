import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Analytics } from '../../core/ports/analytics.ts';
import { countOf, newToken } from './analytics-probe.ts';
import { requestRow } from './analytics-rows.ts';

const poisoned: [what: string, line: (good: string) => string][] = [
  ['a time that is none', (good) => good.replace(/"created_at":"[^"]*"/, '"created_at":"CONFIDENTIAL"')],
  ['an id that is none', (good) => good.replace(/"id":"[^"]*"/, '"id":"CONFIDENTIAL"')],
  ['a line that is cut off', (good) => good.slice(0, 200)],
  ['a line that is no JSON', () => 'CONFIDENTIAL'],
  [
    'a cost that does not fit',
    (good) => good.replace(/"cost":"[^"]*"/, '"cost":"123456789012345678901234567890"'),
  ],
  ['a negative count', (good) => good.replace(/"total_tokens":\d+/, '"total_tokens":-1')],
];

/** A row that can never be stored takes its batch with it, is told apart from a store that is away, and is not quoted. */
export function rejectsPoisonedRows(analytics: () => Analytics): void {
  for (const [what, poison] of poisoned) {
    test(`${what} is the rows' fault: nothing of the batch is stored and nothing quoted`, async () => {
      const organisation_id = randomUUID();
      const lines = Array.from({ length: 3 }, () => JSON.stringify(requestRow({ organisation_id })));
      lines[1] = poison(lines[1] as string);
      const batch = Buffer.from(`${lines.join('\n')}\n`);
      await assert.rejects(analytics().insert('requests', batch, newToken()), (error: Error) => {
        assert.equal(GatewayError.is(error), false, String(error));
        assert.doesNotMatch(`${error.message} ${String(error.cause)}`, /CONFIDENTIAL/);
        return true;
      });
      assert.equal(await countOf(analytics(), organisation_id), 0);
      const rest = Buffer.from(`${lines[0]}\n${lines[2]}\n`);
      await analytics().insert('requests', rest, newToken());
      assert.equal(await countOf(analytics(), organisation_id), 2);
    });
  }
}
