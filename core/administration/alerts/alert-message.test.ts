import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { UsageCrossing } from '../../ports/budgets.ts';
import { composeMail, type MailOccasion, webhookBody } from './alert-message.ts';

const at = Date.parse('2026-11-25T10:20:30Z');
const occasion: MailOccasion = { organisation: 'Initech', workspace: 'Research', reason: 'administrator' };

function crossing(more: Partial<UsageCrossing> = {}): UsageCrossing {
  return {
    id: 'key:o:k1:threshold:0:50:40',
    kind: 'threshold',
    key: 'key:o:k1',
    mark: '0:50:40',
    organisationId: 'o',
    workspaceId: 'w',
    subject: { type: 'api_key', id: 'k1', name: 'Search' },
    unit: 'cost',
    limit: 50,
    threshold: 40,
    used: 40.1234567,
    resetsAt: Date.parse('2026-12-01T00:00:00Z'),
    at,
    ...more,
  };
}

describe('the mail about a crossing', () => {
  test('says whose limit it is, what is used, when it begins anew, what happens and what to do', () => {
    const { subject, text } = composeMail(crossing(), occasion);
    assert.equal(subject, 'Usage alert: key "Search" has used $40.1235 of $50.00');
    assert.equal(
      text,
      `The key "Search" has used $40.1235 of its usage limit of $50.00 (80%).

Its alert threshold is $40.00. Requests go on until the limit is reached; then requests are refused with status 412 (budget_exhausted) until counting begins anew at 2026-12-01 00:00 UTC or the limit is raised.

What you can do: raise the limit of the key (PUT /api-keys/k1 with "usage_limits", or where the configuration file sets it) or begin its count anew (the same with "reset_usage").

Organisation: Initech
Workspace: Research
Key: Search (k1)
Used: $40.1235
Limit: $50.00
Seen at: 2026-11-25 10:20 UTC
Begins anew: 2026-12-01 00:00 UTC

You get this mail from the Weir gateway because you are an owner or an admin of the organisation.
`,
    );
  });

  test('says that a limit is exhausted, of a group, for ever, of the organisation', () => {
    const { subject, text } = composeMail(
      crossing({
        kind: 'exhausted',
        subject: { type: 'usage_limit_policy', id: 'p1', name: 'Per person', valueKey: 'metadata._user:ann' },
        unit: 'tokens',
        limit: 20_000,
        threshold: undefined,
        used: 20_032,
        resetsAt: undefined,
      }),
      { ...occasion, workspace: undefined },
    );
    assert.equal(subject, 'Usage limit exhausted: usage-limit policy "Per person" for metadata._user:ann');
    assert.match(text, /has used 20,032 tokens of its usage limit of 20,000 tokens \(100%\)/);
    assert.match(
      text,
      /is exhausted: requests are refused with status 412 \(budget_exhausted\) until the limit is raised\./,
    );
    assert.match(text, /reset_usage_for_value/);
    assert.doesNotMatch(text, /Workspace:/);
    assert.match(text, /Begins anew: never by itself/);
  });

  for (const type of ['workspace', 'provider', 'integration'] as const)
    test(`names what to do about a ${type}`, () => {
      const { text } = composeMail(crossing({ subject: { type, id: 'x1', name: 'X' } }), occasion);
      assert.match(text, new RegExp(`PUT /(admin/)?${type}s/x1`));
    });

  test('keeps names within their place', () => {
    const name = '<b>"x"</b>\r\nBcc: eve@example.com\u2028'.padEnd(200, 'y');
    const { subject, text, html } = composeMail(crossing({ subject: { type: 'api_key', id: 'k', name } }), {
      ...occasion,
      workspace: name,
    });
    assert.doesNotMatch(subject, /[\r\n\u2028]/);
    assert.doesNotMatch(text, /^Bcc/m);
    assert.doesNotMatch(html, /<b>/);
    assert.match(html, /&lt;b&gt;/);
  });

  test('says that requests are refused when the threshold was reached together with the limit', () => {
    const { text } = composeMail(crossing({ used: 50 }), occasion);
    assert.match(text, /Its alert threshold is \$40\.00\. The limit is exhausted: requests are refused/);
  });

  test('of a limit of nothing has no share', () => {
    const { text } = composeMail(crossing({ kind: 'exhausted', limit: 0, used: 0 }), occasion);
    assert.match(text, /has used \$0\.00 of its usage limit of \$0\.00\./);
  });
});

test('what is posted of a crossing', () => {
  assert.deepEqual(JSON.parse(webhookBody(crossing({ workspaceId: undefined }))), {
    type: 'usage.threshold_reached',
    timestamp: '2026-11-25T10:20:30.000Z',
    data: {
      organisation_id: 'o',
      workspace_id: null,
      subject: { type: 'api_key', id: 'k1', name: 'Search', value_key: null },
      unit: 'cost',
      credit_limit: 50,
      alert_threshold: 40,
      current_usage: 40.1234567,
      next_usage_reset_at: '2026-12-01T00:00:00.000Z',
    },
  });
});
