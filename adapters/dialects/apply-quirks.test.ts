import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EncodeReport } from '../../core/dialects/canonical/chat-codec.ts';
import { applyQuirks } from './request-settings.ts';

test('values, omissions and names of a host; what is left out is reported', () => {
  const body = { tool_choice: 'required', seed: 7, user: 'u', top_k: 5, other: 1 };
  const report = new EncodeReport();
  applyQuirks(
    body,
    {
      values: { tool_choice: { required: 'any' }, other: { a: 'b' } },
      drop: ['user', 'absent'],
      // The same name on purpose: it says that the host takes a member that its dialect has not.
      rename: { seed: 'random_seed', top_k: 'top_k', absent: 'present' },
    },
    report,
  );
  assert.deepEqual(body, { tool_choice: 'any', random_seed: 7, top_k: 5, other: 1 });
  assert.deepEqual(report.dropped, ['user']);
});
