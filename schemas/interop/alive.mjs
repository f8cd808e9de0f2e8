// Says when nobody watches an agency any more: NATS_URL=nats://127.0.0.1:4222 node alive.mjs A100 B200
import { connect } from '@nats-io/transport-node';

const patience = Number(process.env.PATIENCE_SECONDS ?? 180) * 1000; // three heartbeats
const agencies = process.argv.slice(2);
const heard = new Map(agencies.map((agency) => [agency, Date.now()]));
const said = new Map();

function say(agency, words) {
  if (said.get(agency) !== words) console.log(`${agency}: ${words}`);
  said.set(agency, words);
}

setInterval(() => {
  for (const [agency, at] of heard) if (Date.now() - at > patience) say(agency, 'no heartbeat: doorbell, its NATS or the way to it is down');
}, patience / 10);

const nc = await connect({ servers: process.env.NATS_URL ?? 'nats://127.0.0.1:4222', maxReconnectAttempts: -1, waitOnFirstConnect: true });
for await (const message of nc.subscribe('listings.heartbeat.*')) {
  const beat = message.json();
  if (!heard.has(beat.agencyId)) continue;
  heard.set(beat.agencyId, Date.now());
  say(beat.agencyId, beat.state); // watching is well; halted, stale, held, backing_off and words of later versions are not
}
