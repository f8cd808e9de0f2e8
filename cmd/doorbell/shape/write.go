package shape

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// Write writes a file for people: one line of text for each line of a body.
func (f File) Write(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "{\n \"version\": %d,\n \"program\": %s,\n \"note\": %s,\n \"responses\": [", f.Version, compact(f.Program), compact(f.Note))
	for n, r := range f.Responses {
		if n > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, "\n  {\n   \"operation\": %s, \"request\": %s,", compact(r.Operation), compact(r.Request))
		fmt.Fprintf(&b, "\n   \"size\": %d, \"page\": %d, \"same\": %t, \"status\": %d,\n   \"headers\": [", r.Size, r.Page, r.Same, r.Status)
		writeLines(&b, r.Headers)
		fmt.Fprintf(&b, "],\n   \"body\": {\n    \"kind\": %s, \"bytes\": %d, \"records\": %s,\n    \"lines\": [",
			compact(r.Body.Kind), r.Body.Bytes, compact(r.Body.Records))
		writeLines(&b, r.Body.Lines)
		b.WriteString("]\n   }\n  }")
	}
	b.WriteString("\n ]\n}\n")
	_, err := w.Write(b.Bytes())
	return err
}

func writeLines(b *bytes.Buffer, lines []Line) {
	for n, l := range lines {
		if n > 0 {
			b.WriteString(",")
		}
		b.WriteString("\n     " + compact(l))
	}
}

// compact is JSON as people read it: < stays <.
func compact(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // texts, numbers and lists of them
	return string(bytes.TrimSpace(b.Bytes()))
}
