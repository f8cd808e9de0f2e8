// Decodes everything in doorbell's streams with the CloudEvents library and validates it with Ajv: NATS_URL=… node judge.mjs STREAM…
// It prints one JSON object per line for each message: what was understood, and what is wrong. It prints no payloads: they contain
// personal data.
import { readFileSync, readdirSync } from 'node:fs';
import { connect } from '@nats-io/transport-node';
import { jetstream, jetstreamManager } from '@nats-io/jetstream';
import { CloudEvent, HTTP } from 'cloudevents';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';

const contract = new URL('..', import.meta.url);
const read = (name) => JSON.parse(readFileSync(new URL(name, contract), 'utf8'));
const say = (line) => process.stdout.write(JSON.stringify(line) + '\n');

const ajv = new Ajv2020({ strictTypes: true, allowUnionTypes: true, allErrors: true });
addFormats.default(ajv);
for (const name of readdirSync(contract)) if (name.endsWith('.v1.schema.json')) ajv.addSchema(read(name));

// wrong returns where a value violates a schema, and which keyword; never the value.
function wrong(id, value) {
  const valid = ajv.getSchema(id);
  if (!valid) return [`there is no schema ${id}`];
  return valid(value) ? [] : valid.errors.map((e) => `${id} ${e.instancePath}/ ${e.keyword}`);
}

function judge(message) {
  const headers = {};
  const problems = [];
  for (const [name, values] of message.headers) {
    headers[name] = values[0];
    if (values.length !== 1) problems.push(`${name} occurs ${values.length} times`);
  }
  const event = HTTP.toEvent({ headers, body: message.string() });
  if (!(event instanceof CloudEvent) || !event.validate()) problems.push('no CloudEvent');
  const { data, ...attributes } = event.toJSON();
  problems.push(...wrong('urn:doorbell:schema:headers:v1', headers), ...wrong(event.dataschema, data));
  return {
    stream: message.info.stream, place: message.seq, subject: message.subject, attributes, problems,
    reference: event.subject && decodeURIComponent(event.subject),
    agencyId: data.agencyId, propertyReferenceId: data.propertyReferenceId, contactRequestId: data.contactRequestId, origin: data.origin,
  };
}

// judged reports only the name of the error if a message cannot be read: the text of such errors quotes the message.
function judged(message) {
  try {
    return judge(message);
  } catch (error) {
    return { stream: message.info.stream, place: message.seq, subject: message.subject, attributes: { type: '' }, problems: [error.name] };
  }
}

for (const name of readdirSync(new URL('examples/', contract))) {
  const id = `urn:doorbell:schema:${name.endsWith('.headers.json') ? 'headers:v1' : name.replace('.v1.json', ':v1')}`;
  say({ example: name, problems: wrong(id, read(`examples/${name}`)) });
}
const nc = await connect({ servers: process.env.NATS_URL });
const manager = await jetstreamManager(nc);
for (const stream of process.argv.slice(2)) {
  let left = (await manager.streams.info(stream)).state.messages;
  const consumer = await jetstream(nc).consumers.get(stream, {});
  for await (const message of await consumer.consume()) {
    say(judged(message));
    if (--left <= 0) break;
  }
}
await nc.close();
