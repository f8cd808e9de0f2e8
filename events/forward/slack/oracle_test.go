package slack_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"doorbell/events/forward/forwardtest"
	"doorbell/events/helptest"
	"doorbell/schemas/skiptest"
)

// interop is where the third-party programs are, Slack's type definitions and the TypeScript compiler among them.
const interop = "../../../schemas/interop"

// opening declares what a payload must be: the arguments of Slack's own webhook client, its blocks of the kinds that Slack knows.
// That client leaves out mrkdwn, which the documentation of message payloads has.
const opening = `import type { KnownBlock, MessageAttachment } from '@slack/types';
import type { IncomingWebhookSendArguments } from '@slack/webhook';

type Attachment = Omit<MessageAttachment, 'blocks'> & { blocks: KnownBlock[] };
type Message = Omit<IncomingWebhookSendArguments, 'blocks' | 'attachments'> &
  { text: string; mrkdwn: boolean; blocks: KnownBlock[]; attachments?: Attachment[] };

`

// noMessages are what the types must refuse; otherwise they check nothing.
var noMessages = map[string]string{
	"a header with mrkdwn":      `{"text":"","mrkdwn":false,"blocks":[{"type":"header","text":{"type":"mrkdwn","text":"a"}}]}`,
	"an unknown block":          `{"text":"","mrkdwn":false,"blocks":[{"type":"headline","text":{"type":"plain_text","text":"a"}}]}`,
	"an unknown member":         `{"text":"","mrkdwn":false,"blocks":[],"unfurl":false}`,
	"a context of nothing":      `{"text":"","mrkdwn":false,"blocks":[{"type":"context"}]}`,
	"a verbatim plain_text":     `{"text":"","mrkdwn":false,"blocks":[{"type":"section","text":{"type":"plain_text","text":"a","verbatim":true}}]}`,
	"a colour that is a number": `{"text":"","mrkdwn":false,"blocks":[],"attachments":[{"color":1,"blocks":[]}]}`,
}

// TestSlacksTypesAcceptEveryPayload has an independent judge: Slack's published type definitions,
// checked by the TypeScript compiler, which also fails where it does not refuse what it must.
func TestSlacksTypesAcceptEveryPayload(t *testing.T) {
	var program strings.Builder
	program.WriteString(opening)
	for i, s := range forwardtest.Samples(t) {
		fmt.Fprintf(&program, "// %s\nexport const m%d: Message = %s;\n", s.Name, i, chat.Body(t, s.Full, s.Delivery))
	}
	i := 0
	for name, payload := range noMessages {
		i++
		fmt.Fprintf(&program, "// @ts-expect-error %s\nexport const no%d: Message = %s;\n", name, i, payload)
	}
	if out, err := compile(t, program.String()); err != nil {
		t.Errorf("Slack's types and our checks disagree: %v\n%s", err, out)
	}
}

// compile checks a program with tsc, in a folder of its own that borrows node_modules.
func compile(t *testing.T, program string) ([]byte, error) {
	t.Helper()
	modules, err := filepath.Abs(filepath.Join(interop, "node_modules"))
	helptest.Must(t, err)
	compiler := filepath.Join(modules, "typescript", "bin", "tsc")
	if _, err := os.Stat(compiler); err != nil {
		skiptest.Skipf(t, "Slack's type definitions are not installed; run, at the top of the repository: npm ci --prefix schemas/interop")
	}
	folder := t.TempDir()
	helptest.Must(t, os.Symlink(modules, filepath.Join(folder, "node_modules")))
	file := filepath.Join(folder, "messages.ts")
	helptest.Must(t, os.WriteFile(file, []byte(program), 0o600))
	command := exec.Command("node", compiler, "--noEmit", "--strict", "--skipLibCheck", "--target", "es2022", "--module", "nodenext", "--types", "node", file)
	command.Dir = folder
	out, err := command.CombinedOutput()
	return bytes.ReplaceAll(out, []byte(folder), nil), err
}
