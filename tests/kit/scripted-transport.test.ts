import { ManualClock } from '../conformance/manual-clock.ts';
import { transportConformance } from '../conformance/transport.ts';
import { createScriptedTransport } from './scripted-transport.ts';

transportConformance('scripted transport', () => {
  const clock = new ManualClock();
  const transport = createScriptedTransport(clock);
  return Promise.resolve({
    transport,
    play(...scenes) {
      transport.script('http://up.test', ...scenes);
      return Promise.resolve('http://up.test');
    },
    async come(promise) {
      let came = false;
      void promise.then(() => (came = true));
      for (let i = 0; i < 200 && !came; i++) await clock.pass(5);
      if (!came) throw new Error('It did not come within a second.');
      return promise;
    },
    pass: (ms) => clock.pass(ms),
    open: () => transport.open + clock.waiting + transport.thrown.length,
    received: () => String(transport.calls.at(-1)?.body),
    close: () => transport.close(),
  });
});
