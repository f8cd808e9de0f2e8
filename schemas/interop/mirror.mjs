// Keeps a copy of every agency in step, event by event: NATS_URL=nats://127.0.0.1:4222 node mirror.mjs
import { connect } from '@nats-io/transport-node';
import { AckPolicy, jetstream, jetstreamManager } from '@nats-io/jetstream';
import { HTTP } from 'cloudevents';

const nc = await connect({ servers: process.env.NATS_URL ?? 'nats://127.0.0.1:4222', maxReconnectAttempts: -1 });
const manager = await jetstreamManager(nc);
await manager.consumers.add('LISTINGS', {
  durable_name: 'mirror', // NATS remembers under this name how far we are
  filter_subject: 'listings.v1.>',
  ack_policy: AckPolicy.Explicit,
  max_ack_pending: 1, // one in hand, so that what is sent again does not overtake
});

const done = new Set(); // in life: beside the copy in your database, changed in one transaction with it
const consumer = await jetstream(nc).consumers.get('LISTINGS', 'mirror');
for await (const message of await consumer.consume({ max_messages: 1 })) {
  const headers = Object.fromEntries([...message.headers].map(([name, values]) => [name, values[0]]));
  const event = HTTP.toEvent({ headers, body: message.string() });

  if (done.has(event.id)) {
    message.ack(); // it came twice
    continue;
  }
  apply(event);
  done.add(event.id);
  message.ack(); // not before it is done
}

function apply({ type, data, origin }) {
  switch (type) {
    case 'insertion.appeared':
    case 'insertion.changed':
    case 'insertion.reappeared':
    case 'insertion.disappeared':
      console.log(`${data.agencyId}: ${type} ${data.propertyReferenceId}, episode ${data.episode}, ${origin}`);
      if (data.truncated) console.log('  something was left out because it was too large: mostly the record');
      break;
    default: // what you do not need, and types that a later doorbell knows
      console.log(`${data.agencyId}: ${type}`);
  }
}
