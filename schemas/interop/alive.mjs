// Reports when an agency is no longer watched: NATS_URL=nats://127.0.0.1:4222 node alive.mjs A100 B200
import { connect } from '@nats-io/transport-node';

const limit = Number(process.env.PATIENCE_SECONDS ?? 180) * 1000; // three heartbeats
const agencies = process.argv.slice(2);
const last = new Map(agencies.map((agency) => [agency, Date.now()]));
const printed = new Map();

function say(agency, words) {
  if (printed.get(agency) !== words) console.log(`${agency}: ${words}`);
  printed.set(agency, words);
}

setInterval(() => {
  for (const [agency, at] of last) if (Date.now() - at > limit) say(agency, 'no heartbeat: doorbell, its NATS or the way to it is down');
}, limit / 10);

const nc = await connect({ servers: process.env.NATS_URL ?? 'nats://127.0.0.1:4222', maxReconnectAttempts: -1, waitOnFirstConnect: true });
for await (const message of nc.subscribe('listings.heartbeat.*')) {
  const beat = message.json();
  if (!last.has(beat.agencyId)) continue;
  last.set(beat.agencyId, Date.now());
  say(beat.agencyId, beat.state); // watching is fine; halted, stale, held, backing_off and states of later versions are not
}
