import assert from 'node:assert/strict';
import type { LookupAddress } from 'node:dns';
import { describe, test } from 'node:test';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { createAddressGuard, type AddressGuard, type ResolvedAddress } from './address-guard.ts';

const v4 = { address: '8.8.8.8', family: 4 };
const v6 = { address: '2606:4700::1111', family: 6 };
const resolving = (...addresses: ResolvedAddress[]) => createAddressGuard(() => Promise.resolve(addresses));

function look(guard: AddressGuard, options: { all?: boolean; family?: number }): Promise<unknown> {
  return new Promise((resolve, reject) =>
    guard.lookup('a.example.com', options, (error, address: string | LookupAddress[], family) => {
      if (error) reject(error);
      else resolve(typeof address === 'string' ? [address, family] : address);
    }),
  );
}

describe('the address guard', () => {
  test('answers a look-up in both of its forms, by family where one is wanted', async () => {
    const guard = resolving(v4, v6);
    assert.deepEqual(await look(guard, { all: true }), [v4, v6]);
    assert.deepEqual(await look(guard, { all: true, family: 6 }), [v6]);
    assert.deepEqual(await look(guard, {}), ['8.8.8.8', 4]);
    assert.deepEqual(await look(guard, { family: 6 }), ['2606:4700::1111', 6]);
    await assert.rejects(look(resolving(v4), { family: 6 }), { code: 'ENOTFOUND' });
  });

  test('refuses a name when one of its addresses is not public, also of the other family', async () => {
    for (const closed of ['127.0.0.1', '10.0.0.1', '::1', 'fe80::1%eth0', '::ffff:8.8.8.8', 'nonsense']) {
      const guard = resolving(v4, { address: closed, family: closed.includes(':') ? 6 : 4 });
      for (const options of [{ all: true }, {}, { family: 4 }]) {
        await assert.rejects(look(guard, options), (error) => {
          assert.ok(GatewayError.is(error) && error.code === 'address_refused');
          assert.match(error.message, /"a\.example\.com".*not public.*security\.trusted_hosts/);
          assert.ok(!error.message.includes(closed));
          return true;
        });
      }
    }
  });

  test('passes on that a name is unknown', async () => {
    await assert.rejects(look(resolving(), { all: true }), { code: 'ENOTFOUND' });
    const failing = createAddressGuard(() =>
      Promise.reject(Object.assign(new Error('x'), { code: 'EAI_AGAIN' })),
    );
    await assert.rejects(look(failing, { all: true }), { code: 'EAI_AGAIN' });
  });

  test('asks the system by default', async () => {
    const guard = createAddressGuard();
    const name = 'localhost';
    const found = new Promise((resolve, reject) =>
      guard.lookup(name, { all: true }, (error, address) => (error ? reject(error) : resolve(address))),
    );
    await assert.rejects(found, { code: 'address_refused' });
  });

  test('judges hosts and the peers of sockets', () => {
    const guard = resolving();
    assert.equal(guard.refusal('example.com'), undefined);
    assert.equal(guard.refusal('8.8.8.8'), undefined);
    for (const host of ['127.0.0.1', '::1', '[::1]', 'localhost', 'x.internal']) {
      assert.equal(guard.refusal(host)?.code, 'address_refused', host);
    }
    assert.equal(guard.remoteRefusal('example.com', '8.8.8.8'), undefined);
    assert.equal(guard.remoteRefusal('example.com', '::ffff:127.0.0.1')?.code, 'address_refused');
  });
});
