// Runs the parser of the AsyncAPI initiative on documents: node asyncapi.mjs FILE-OR-ADDRESS…
// For each it prints what it read, one message per line, or its findings above "information". It exits with 1 if there are any.
import { Parser, fromFile, fromURL } from '@asyncapi/parser';

for (const source of process.argv.slice(2)) {
  const read = source.startsWith('http') ? fromURL : fromFile;
  const { document, diagnostics } = await read(new Parser(), source).parse();
  const found = diagnostics.filter((d) => d.severity <= 1); // 0 error, 1 warning, 2 information, 3 hint
  for (const d of found) console.log(`${d.severity === 0 ? 'error' : 'warning'} ${d.path.join('/')}: ${d.message} (${d.code})`);
  if (!document || found.length > 0) process.exitCode = 1;
  else document.channels().all().forEach(tell);
}

function tell(channel) {
  for (const message of channel.messages().all()) {
    const schemas = [message.headers(), message.payload()].map((schema) => schema?.json().schema.$id ?? '-');
    const example = message.examples().all()[0];
    console.log([channel.address() ?? '-', message.name(), ...schemas, example?.payload()?.agencyId ?? '-'].join(' '));
  }
}
