package config

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/kelseyhightower/envconfig"
)

// Problem is one thing that is wrong with one variable. Text says what, and what to do; it quotes
// no value.
type Problem struct{ Name, Text string }

// Error is everything that is wrong with the environment, in the order of the variables. It ends
// the process with exit code 78, before anything is written or asked.
type Error struct{ Problems []Problem }

func (e *Error) Error() string { return strings.Join(e.Sentences(), "\n") }

// Sentences returns one sentence for each problem.
func (e *Error) Sentences() []string {
	var all []string
	for _, p := range e.Problems {
		all = append(all, p.Name+" "+p.Text)
	}
	return all
}

// Setting is one variable: what it can be and what it is. Value is fit to be printed: secrets are
// fingerprints.
type Setting struct {
	Group       group  `json:"group"`
	Name        string `json:"name"`
	Value       string `json:"value"`
	Default     string `json:"default"`
	Source      string `json:"source"`
	Secret      bool   `json:"secret"`
	Description string `json:"description"`

	field reflect.StructField
	value reflect.Value
	text  string
}

// masked is a value that knows which part of it may be shown.
type masked interface{ Masked() string }

// reader turns an environment into a Config and collects what is odd on the way.
type reader struct {
	environ  map[string]string
	settings []*Setting
	problems []Problem
	warnings []string
}

func newReader(environ []string) *reader {
	r := &reader{environ: make(map[string]string, len(environ))}
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok {
			r.environ[name] = value
		}
	}
	return r
}

// reading numbers the calls of read, in all goroutines.
var reading atomic.Uint64

// read fills the fields of a group. envconfig reads the process environment alone, so the texts
// found stand there for the length of this call, under a prefix that no other call has; one that
// does not fit its field is reported and left out.
func (r *reader) read(g group, fields any) {
	private := fmt.Sprintf("DOORBELL_READING_%d", reading.Add(1))
	own := settingsOf(g, fields)
	r.settings = append(r.settings, own...)
	for _, s := range own {
		if !r.find(s) {
			continue
		}
		v, err := decode(s.field.Type, s.text)
		if err != nil {
			r.wrong(s.Name, err.Error())
			continue
		}
		text := s.text
		if d, is := v.(*time.Duration); is {
			text = d.String() // envconfig knows no days
		}
		name := private + strings.TrimPrefix(s.Name, g.prefix())
		if os.Setenv(name, text) != nil {
			r.wrong(s.Name, "holds a character that no variable can hold; write it again")
			continue
		}
		defer os.Unsetenv(name)
	}
	if envconfig.Process(private, fields) != nil {
		panic("configuration: a default is unfit") // the tag is ours; a test reads every default
	}
	for _, s := range own {
		r.checkRange(s)
	}
}

// decode reads a text as a value of a type, and returns a pointer to it. Its errors say what to
// write and quote nothing.
func decode(t reflect.Type, text string) (any, error) {
	v := reflect.New(t).Interface()
	var err error
	switch v := v.(type) {
	case envconfig.Decoder:
		err = v.Decode(text)
	case *time.Duration:
		if *v, err = ParseDuration(text); err != nil {
			err = advice("is not a duration; write it like 30s, 5m, 2h or 30d")
		}
	case *bool:
		if *v, err = strconv.ParseBool(text); err != nil {
			err = advice("is neither true nor false; write one of them")
		}
	case *float64:
		if *v, err = strconv.ParseFloat(text, 64); err != nil {
			err = advice("is not a number; write it like 5 or 0.5")
		}
	}
	return v, err
}

// settingsOf lists the variables of a group. The names come from envconfig itself, so that what is
// documented is what is read. A group is flat: a name for each field.
func settingsOf(g group, fields any) []*Setting {
	names := namesOf(g, fields)
	value := reflect.ValueOf(fields).Elem()
	all := make([]*Setting, value.NumField())
	for i := range all {
		f := value.Type().Field(i)
		all[i] = &Setting{
			Group: g, Name: names[i], Default: f.Tag.Get("default"), Description: f.Tag.Get("desc"),
			Secret: mayBeFile(f.Type), field: f, value: value.Field(i),
		}
	}
	return all
}

var named sync.Map // group → []string: they are always the same, and a daemon reads its keys again and again

func namesOf(g group, fields any) []string {
	if known, ok := named.Load(g); ok {
		return known.([]string)
	}
	var keys bytes.Buffer
	if err := envconfig.Usagef(g.prefix(), fields, &keys, "{{range .}}{{usage_key .}} {{end}}"); err != nil {
		panic(err) // the struct is ours
	}
	names := strings.Fields(keys.String())
	named.Store(g, names)
	return names
}

// All are the variables of every group with their defaults, those that everybody needs first.
func All() []*Setting {
	return slices.Concat(settingsOf(GroupBase, &Base{}), settingsOf(GroupPoll, &Poll{}),
		settingsOf(GroupForward, &Forward{}), settingsOf(GroupNATS, &NATS{}))
}

// Meaning is the description with what the tags say about the values.
func (s *Setting) Meaning() string {
	text := s.Description
	if choice := s.field.Tag.Get("choice"); choice != "" {
		text += " One of " + strings.ReplaceAll(choice, ",", ", ") + "."
	}
	if low := s.field.Tag.Get("min"); low != "" {
		text += " From " + low + " to " + s.field.Tag.Get("max") + "."
	}
	if !s.Secret {
		return text
	}
	also := " Secret: also as "
	if v, err := decode(s.field.Type, ""); err == nil {
		if p, is := v.(interface{ isOpen() bool }); is && p.isOpen() {
			also = " Also as "
		}
	}
	return text + also + s.Name + FileSuffix + "."
}

// mayBeFile reports whether values of a type are secrets, or as long as lists of agencies are: they
// can come from a file.
func mayBeFile(t reflect.Type) bool {
	return t == reflect.TypeFor[Secret]() || t != reflect.TypeFor[PerAgencyFile]() && t.Implements(reflect.TypeFor[interface{ Of(agency string) Secret }]())
}

// shown completes the settings for printing, unfit values left out.
func (r *reader) shown() []Setting {
	all := make([]Setting, 0, len(r.settings))
	for _, s := range r.settings {
		switch m, masks := s.value.Interface().(masked); {
		case !r.good(s.Name) && s.Source != SourceDefault:
			s.Value = "(not usable)"
		case masks:
			s.Value = m.Masked()
		case s.Source == SourceDefault:
			s.Value = s.Default
		default:
			s.Value = s.text
		}
		all = append(all, *s)
	}
	return all
}

func (r *reader) wrong(name, text string) { r.problems = append(r.problems, Problem{name, text}) }

// wrongIf reports what is wrong with a variable, unless something else is already.
func (r *reader) wrongIf(is bool, name, text string) {
	if is && r.good(name) {
		r.wrong(name, text)
	}
}

func (r *reader) warn(sentence string) { r.warnings = append(r.warnings, sentence) }

// has reports whether a group was read.
func (r *reader) has(g group) bool {
	return slices.ContainsFunc(r.settings, func(s *Setting) bool { return s.Group == g })
}

// good reports whether nothing is wrong with any of the variables so far. One that was not read is
// good.
func (r *reader) good(names ...string) bool {
	return !slices.ContainsFunc(r.problems, func(p Problem) bool {
		return slices.Contains(names, p.Name) || slices.Contains(names, strings.TrimSuffix(p.Name,
			FileSuffix))
	})
}

// set reports whether a variable has a value that is not its default.
func (r *reader) set(name string) bool {
	return slices.ContainsFunc(r.settings,
		func(s *Setting) bool { return s.Name == name && s.Source != SourceDefault })
}

// plain reports whether a text is one line of readable characters.
func plain(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}
