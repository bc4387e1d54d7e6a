// Runs before a gateway whose data folder may be new. A new folder joins the organisation of PostgreSQL only if that
// answers; so this waits for it. Where a Secret holds an identity, the folder begins with that instead.
import { constants } from 'node:fs';
import { access, copyFile, mkdir } from 'node:fs/promises';
import { connect } from 'node:net';

const { WEIR_DATA: data, WEIR_FIRST_IDENTITY: given, WEIR_WAIT_FOR: store } = process.env;
const identity = `${data}/identity.json`;
const limit = Date.now() + 280_000;

const reaches = (host, port) =>
  new Promise((resolve) => {
    const socket = connect({ host, port, timeout: 3000 });
    const end = (answer) => {
      socket.destroy();
      resolve(answer);
    };
    socket.once('connect', () => end(true));
    socket.once('error', () => end(false));
    socket.once('timeout', () => end(false));
  });

const isThere = await access(identity).then(
  () => true,
  () => false,
);
if (isThere) console.log('The data folder has an identity.');
else if (given !== undefined) {
  await mkdir(data, { recursive: true, mode: 0o700 });
  await copyFile(given, identity, constants.COPYFILE_EXCL);
  console.log('The data folder begins with the identity of the Secret.');
} else if (store !== undefined) {
  const { hostname, port } = new URL(store);
  const address = [hostname.replace(/^\[|\]$/g, ''), Number(port || 5432)];
  while (!(await reaches(...address))) {
    if (Date.now() > limit) {
      console.error(
        `Nothing answers at ${address.join(':')}: look at postgresql.url and the network policy.`,
      );
      process.exit(1);
    }
    await new Promise((resolve) => setTimeout(resolve, 2000));
  }
  console.log(`${address.join(':')} answers.`);
}
