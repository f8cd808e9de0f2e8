package report

import (
	"encoding/csv"
	"io"
	"strings"
	"unicode"
)

// CSV writes rows as Excel opens them in Switzerland: semicolons, CRLF, and a byte order mark,
// without which it would take UTF-8 for another encoding.
type CSV struct{ w *csv.Writer }

// NewCSV writes the byte order mark and a row of names.
func NewCSV(w io.Writer, names ...string) (*CSV, error) {
	if _, err := io.WriteString(w, "\ufeff"); err != nil {
		return nil, err
	}
	c := &CSV{csv.NewWriter(w)}
	c.w.Comma, c.w.UseCRLF = ';', true
	return c, c.Row(names...)
}

// Row writes one row, which is one line whatever the cells contain.
func (c *CSV) Row(cells ...string) error {
	row := make([]string, len(cells))
	for n, cell := range cells {
		row[n] = Cell(cell)
	}
	if err := c.w.Write(row); err != nil {
		return err
	}
	c.w.Flush()
	return c.w.Error()
}

// Cell returns a text that a spreadsheet shows and does not compute. What begins like a formula
// gets an apostrophe. Line ends and other invisible characters become spaces.
func Cell(text string) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	formula := strings.HasPrefix(text, "\t")
	text = strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) && !unicode.Is(unicode.Z, r) {
			return r
		}
		return ' '
	}, strings.ReplaceAll(text, "\r\n", "\n"))
	switch begin := strings.TrimLeft(text, " "); {
	case begin == "":
		return ""
	case formula || strings.ContainsRune("=+-@＝＋－＠", []rune(begin)[0]):
		return "'" + text
	}
	return text
}
