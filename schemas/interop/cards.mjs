// Reads cards with Microsoft's Adaptive Cards library, as a client that supports no version above 1.2 does: a JSON array of cards on
// standard input. It prints a JSON array with the library's complaints about each card, and never the text of a card.
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
  if (!isDeepStrictEqual(known, card)) problems.push('the library does not recognize all of it');
  return problems;
}

process.stdout.write(JSON.stringify(JSON.parse(readFileSync(0, 'utf8')).map(against)));
