import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Type } from 'typebox';
import { defineRoute } from '../../pipeline/define-route.ts';
import { administrationOperation } from './document.ts';

test('the document says which routes are older faces of something', () => {
  const route = defineRoute({
    id: 'old.get',
    method: 'GET',
    path: '/old',
    summary: 'An older face',
    scope: 'old.read',
    // Reads only.
    audit: null,
    reply: Type.Object({}),
    handle: () => ({}),
  });
  assert.equal(administrationOperation({ ...route, deprecated: true }).deprecated, true);
  assert.equal(administrationOperation(route).deprecated, undefined);
});
