// Lets Microsoft's library for Adaptive Cards read cards as a client does that knows no version above 1.2: a JSON array of cards on
// standard input. Prints a JSON array with, for each, what the library says against it. It prints no text of a card.
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';

const { AdaptiveCard, SerializationContext, Versions } = createRequire(import.meta.url)('adaptivecards/dist/adaptivecards.js');

function against(card) {
  const context = new SerializationContext(Versions.v1_2);
  const read = new AdaptiveCard();
  read.parse(card, context);
  const problems = [];
  for (let i = 0; i < context.eventCount; i++) problems.push(context.getEventAt(i).message);
  for (const e of read.validateProperties().validationEvents) problems.push(e.message);
  const { $schema, ...known } = read.toJSON(context);
  if (!isDeepStrictEqual(known, card)) problems.push('the library does not know all of it');
  return problems;
}

process.stdout.write(JSON.stringify(JSON.parse(readFileSync(0, 'utf8')).map(against)));
