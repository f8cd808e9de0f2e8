package config

import (
	"bytes"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kelseyhightower/envconfig"
)

// Problem is one thing that is wrong with one variable. Text says what, and what to do; it quotes
// no value.
type Problem struct{ Name, Text string }

// Error is everything that is wrong with the environment. It ends the process with exit code 78,
// before anything is written or asked.
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

// noVariables is a prefix that no variable of the process can have.
const noVariables = "\x00"

// read fills the fields of a group. envconfig knows their names and sets the defaults. The texts
// that were found are decoded here: envconfig stops at the first that does not fit and quotes it,
// and reads the environment of the process alone.
func (r *reader) read(g group, fields any) {
	if envconfig.Process(noVariables, fields) != nil {
		panic("configuration: a default is unfit") // the tag is ours; a test reads every default
	}
	for _, s := range settingsOf(g, fields) {
		r.settings = append(r.settings, s)
		if !r.find(s) {
			continue
		}
		if v, err := decode(s.field.Type, s.text); err != nil {
			r.wrong(s.Name, err.Error())
		} else {
			s.value.Set(v)
		}
	}
}

// decode reads a text as a value of a type. Its errors say what to write and quote nothing.
func decode(t reflect.Type, text string) (reflect.Value, error) {
	v := reflect.New(t)
	var err error
	switch field := v.Interface().(type) {
	case envconfig.Decoder:
		err = field.Decode(text)
	case *time.Duration:
		if *field, err = ParseDuration(text); err != nil {
			err = advice("is not a duration; write it like 30s, 5m, 2h or 30d")
		}
	case *bool:
		if *field, err = strconv.ParseBool(text); err != nil {
			err = advice("is neither true nor false; write one of them")
		}
	case *float64:
		if *field, err = strconv.ParseFloat(text, 64); err != nil {
			err = advice("is not a number; write it like 5 or 0.5")
		}
	default:
		v.Elem().SetString(text)
	}
	return v.Elem(), err
}

// settingsOf lists the variables of a group. The names come from envconfig itself. A group is flat:
// a name for each field.
func settingsOf(g group, fields any) []*Setting {
	var names bytes.Buffer
	err := envconfig.Usagef(g.prefix(), fields, &names, "{{range .}}{{usage_key .}} {{end}}")
	if err != nil {
		panic(err) // the struct is ours
	}
	var all []*Setting
	value := reflect.ValueOf(fields).Elem()
	for i, name := range strings.Fields(names.String()) {
		f := value.Type().Field(i)
		all = append(all, &Setting{
			Group: g, Name: name, Default: f.Tag.Get("default"), Description: f.Tag.Get("desc"),
			Secret: mayBeFile(f.Type), field: f, value: value.Field(i),
		})
	}
	return all
}

// All are the variables of every group with their defaults, those that everybody needs first.
func All() []*Setting {
	return slices.Concat(settingsOf(GroupBase, &Base{}), settingsOf(GroupPoll, &Poll{}),
		settingsOf(GroupForward, &Forward{}), settingsOf(GroupNATS, &NATS{}))
}

// Meaning is the description with what the tags say about the values.
func (s *Setting) Meaning() string {
	text := s.Description
	if choice := s.choice(); choice != nil {
		text += " One of " + strings.Join(choice, ", ") + "."
	}
	if low := s.field.Tag.Get("min"); low != "" {
		text += " From " + low + " to " + s.field.Tag.Get("max") + "."
	}
	if !s.Secret {
		return text
	}
	if v, _ := decode(s.field.Type, ""); (&Setting{value: v}).perAgency().shape.open {
		return text + " Also as " + s.Name + FileSuffix + "."
	}
	return text + " Secret: also as " + s.Name + FileSuffix + "."
}

// choice returns the values that a setting can have; nil for any.
func (s *Setting) choice() []string {
	if choice := s.field.Tag.Get("choice"); choice != "" {
		return strings.Split(choice, ",")
	}
	return nil
}

// mayBeFile reports whether values of a type are secrets, or as long as lists of agencies are: they
// can come from a file.
func mayBeFile(t reflect.Type) bool {
	perAgency := t.Implements(reflect.TypeFor[interface{ perAgency() PerAgency }]())
	return t == reflect.TypeFor[Secret]() || perAgency && t != reflect.TypeFor[PerAgencyFile]()
}

// shown completes the settings for printing, unfit values left out.
func (r *reader) shown() (all []Setting) {
	for _, s := range r.settings {
		m, masks := s.value.Interface().(interface{ Masked() string })
		switch {
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

// good reports whether nothing is wrong with any of the variables so far. One that was not read is
// good.
func (r *reader) good(names ...string) bool {
	return !slices.ContainsFunc(r.problems, func(p Problem) bool {
		return slices.Contains(names, p.Name) ||
			slices.Contains(names, strings.TrimSuffix(p.Name, FileSuffix))
	})
}

// set reports whether a variable has a value that is not its default.
func (r *reader) set(name string) bool {
	return slices.ContainsFunc(r.settings,
		func(s *Setting) bool { return s.Name == name && s.Source != SourceDefault })
}
