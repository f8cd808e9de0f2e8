package receivers

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"doorbell/cmd/doorbell/config"
	"doorbell/events"
	"doorbell/events/forward"
)

// Line is one line of the table of routes, from the file or made from a setting.
type Line struct {
	Number  int       `json:"line,omitempty"`    // in the file; 0: made from a setting
	Setting string    `json:"setting,omitempty"` // the name of that setting
	To      []Address `json:"to"`
	forward.Filter
}

// Place names the line for people: its setting, or its number in the file.
func (l Line) Place() string {
	if l.Number == 0 {
		return l.Setting
	}
	return fmt.Sprintf("line %d", l.Number)
}

// Address is one receiver of a kind. The value may be a secret.
type Address struct {
	Kind, Value string
	secrets     string // that sign the requests of a webhook
	template    string // the path of what is sent to a webhook instead of the event
}

// String returns what may be printed. An address that may be a secret becomes host and fingerprint.
func (a Address) String() string {
	if a.Kind == "email" {
		return "email:" + a.Value
	}
	return a.Kind + ":" + config.MaskedURL(a.Value)
}

// MarshalText writes what String returns.
func (a Address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// mistake is an error in a routes file and its position. It quotes no cell: any may hold a secret.
type mistake struct {
	line, cell int    // both from 1
	column     string // the name of the cell's column, if it has one
	text       string
}

func (m *mistake) Error() string {
	at := fmt.Sprintf("line %d, column %d", m.line, m.cell)
	if m.column != "" {
		at += " (" + m.column + ")"
	}
	return at + ": " + m.text
}

// columns are the columns that a file may have, in any order.
var columns = []string{"agency", "reference", "postal_code", "offer_type", "min_score", "types", "to"}

// parse reads a table as spreadsheets write it: a header, cells separated by , or ;, UTF-8 with or
// without a byte order mark. Empty lines and lines that begin with # are skipped.
func (s *Set) parse(text string) (lines []Line, err error) {
	text = strings.TrimPrefix(text, "\uFEFF")
	if at := strings.IndexFunc(text, func(r rune) bool { return r == utf8.RuneError }); at >= 0 {
		line := strings.Count(text[:at], "\n") + 1
		return nil, &mistake{line, 1, "", "a character is not UTF-8; save the table in UTF-8"}
	}
	r := csv.NewReader(strings.NewReader(text))
	r.Comma, r.Comment, r.FieldsPerRecord = separator(text), '#', -1
	var header []string
	for {
		cells, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if bad, is := errors.AsType[*csv.ParseError](err); is {
			return nil, &mistake{bad.Line, bad.Column, "character", "a quotation mark is in the wrong place"}
		}
		for n := range cells {
			cells[n] = strings.TrimSpace(cells[n])
		}
		number, _ := r.FieldPos(0)
		switch {
		case !slices.ContainsFunc(cells, func(c string) bool { return c != "" }),
			number == 1 && strings.HasPrefix(cells[0], "sep="):
		case header == nil:
			if header, err = readHeader(number, cells); err != nil {
				return nil, err
			}
		default:
			l, err := s.readLine(number, header, cells)
			if err != nil {
				return nil, err
			}
			lines = append(lines, l)
		}
	}
	if header == nil {
		return nil, &mistake{1, 1, "", "there is no header; it is " + strings.Join(columns, ";")}
	}
	return lines, nil
}

// separator returns the more frequent of ; and , in the first line that is no comment.
func separator(text string) rune {
	for line := range strings.Lines(text) {
		line = strings.ToLower(strings.TrimSpace(line))
		if line == "" || line[0] == '#' {
			continue
		}
		if strings.Count(line, ";") >= strings.Count(line, ",") {
			return ';'
		}
		break
	}
	return ','
}

// readHeader returns the columns that a header names. Empty cells at its end are no columns.
func readHeader(number int, cells []string) ([]string, error) {
	var header []string
	for n, c := range cells {
		c = strings.ToLower(c)
		switch wrong := func(text string) error { return &mistake{number, n + 1, "", text} }; {
		case c == "" && !slices.ContainsFunc(cells[n:], func(c string) bool { return c != "" }):
		case !slices.Contains(columns, c):
			return nil, wrong("this is not a column; they are " + strings.Join(columns, ", "))
		case slices.Contains(header, c):
			return nil, wrong("this column appears twice")
		}
		header = append(header, c)
	}
	if !slices.Contains(header, "to") {
		return nil, &mistake{number, len(header), "", "the column to is missing"}
	}
	return header, nil
}

// readLine reads a line; cells may be missing at its end.
func (s *Set) readLine(number int, header, cells []string) (Line, error) {
	l, to := Line{Number: number}, slices.Index(header, "to")
	l.Filter.Types = []string{string(events.TypeContactRequestCreated)}
	for n, cell := range cells {
		column := ""
		if n < len(header) {
			column = header[n]
		}
		if cell == "" || n == to {
			continue
		}
		if text := l.read(column, cell); text != "" {
			return l, &mistake{number, n + 1, column, text}
		}
	}
	// The addresses come last: a webhook's secret depends on the line's agency.
	text := "it is empty; write, for example, email:leads@agency.example"
	if to < len(cells) && cells[to] != "" {
		text = s.readAddresses(&l, cells[to])
	}
	if text != "" {
		return l, &mistake{number, to + 1, "to", text}
	}
	return l, nil
}

// read adds a cell to the filter of the line, or returns what is wrong with it.
func (l *Line) read(column, cell string) (wrong string) {
	list := strings.FieldsFunc(cell, func(r rune) bool { return r == ',' || r == ' ' })
	switch column {
	case "agency":
		for _, id := range list {
			if err := config.CheckAgencyID(id); err != nil && id != config.AnyAgency {
				return "this " + err.Error()
			}
		}
		if !slices.Contains(list, config.AnyAgency) {
			l.Filter.Agencies = list
		}
	case "reference":
		l.Filter.Reference = cell
	case "postal_code":
		l.Filter.PostalCodes = list
	case "offer_type":
		l.Filter.OfferTypes = list
	case "min_score":
		least, err := strconv.ParseFloat(cell, 64)
		if err != nil || math.IsNaN(least) || math.IsInf(least, 0) {
			return "is not a number; write it like 50 or 0.7"
		}
		l.Filter.MinScore = &least
	case "types":
		for n, name := range list {
			if name != ">" && !config.KnownType(name) {
				return fmt.Sprintf("entry %d is not an event type; %s", n+1, config.TypesAre)
			}
		}
		l.Filter.Types = list
	default:
		return "this cell has no column"
	}
	return ""
}

// readAddresses adds the addresses of a cell to the line, or returns what is wrong with one.
func (s *Set) readAddresses(l *Line, cell string) (wrong string) {
	for n, one := range strings.Fields(cell) {
		kind, value, _ := strings.Cut(one, ":")
		a, text := Address{Kind: strings.ToLower(kind), Value: value}, ""
		switch f := s.c.Forward; a.Kind {
		case "slack", "teams":
			text = config.URLTrouble(value, s.c.Base.AllowPlaintext)
		case "webhook":
			text = config.URLTrouble(value, s.c.Base.AllowPlaintext)
			of := config.AnyAgency
			if l.Filter.Agencies != nil {
				of = l.Filter.Agencies[0]
			}
			a.secrets, a.template = f.WebhookSecret.Revealed(of), f.WebhookTemplateFile.Revealed(of)
			for _, other := range l.Filter.Agencies {
				if text == "" && (f.WebhookTemplateFile.Revealed(other) != a.template ||
					f.WebhookSecret.Revealed(other) != a.secrets) {
					text = "is for agencies with different secrets or templates; write a line for each"
				}
			}
		case "email":
			if config.RecipientsTrouble(value) != "" || strings.Contains(value, ";") {
				text = "is not an email address; write it like email:nora@agency.example, with a space between several"
			} else if f.EmailSMTP == "" || f.EmailFrom == "" {
				text = "needs DOORBELL_EMAIL_SMTP and DOORBELL_EMAIL_FROM"
			}
		default:
			text = "does not begin with a kind of receiver; write slack:https://…, teams:https://…, email:… or webhook:https://…"
		}
		if text != "" {
			return fmt.Sprintf("entry %d %s", n+1, text)
		}
		if !slices.Contains(l.To, a) {
			l.To = append(l.To, a)
		}
	}
	return ""
}
