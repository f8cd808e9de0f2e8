// Keeps a copy of every agency up to date, event by event: NATS_URL=nats://127.0.0.1:4222 node mirror.mjs
import { connect } from '@nats-io/transport-node';
import { AckPolicy, jetstream, jetstreamManager } from '@nats-io/jetstream';
import { HTTP } from 'cloudevents';

const nc = await connect({ servers: process.env.NATS_URL ?? 'nats://127.0.0.1:4222', maxReconnectAttempts: -1 });
const manager = await jetstreamManager(nc);
await manager.consumers.add('LISTINGS', {
  durable_name: 'mirror', // NATS keeps our position under this name
  filter_subject: 'listings.v1.>',
  ack_policy: AckPolicy.Explicit,
  max_ack_pending: 1, // one at a time, so that redelivery keeps the order
});

const done = new Set(); // in production: in your database beside the copy, updated in the same transaction
const consumer = await jetstream(nc).consumers.get('LISTINGS', 'mirror');
for await (const message of await consumer.consume({ max_messages: 1 })) {
  const headers = Object.fromEntries([...message.headers].map(([name, values]) => [name, values[0]]));
  const event = HTTP.toEvent({ headers, body: message.string() });

  if (done.has(event.id)) {
    message.ack(); // delivered twice
    continue;
  }
  apply(event);
  done.add(event.id);
  message.ack(); // only after it is applied
}

function apply({ type, data, origin }) {
  switch (type) {
    case 'insertion.appeared':
    case 'insertion.changed':
    case 'insertion.reappeared':
    case 'insertion.disappeared':
      console.log(`${data.agencyId}: ${type} ${data.propertyReferenceId}, episode ${data.episode}, ${origin}`);
      if (data.truncated) console.log('  something was left out: mostly the record');
      break;
    default: // types that you do not need, and those of later versions
      console.log(`${data.agencyId}: ${type}`);
  }
}
