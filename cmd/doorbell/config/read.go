package config

import (
	"bytes"
	"errors"
	"iter"
	"reflect"
	"regexp"
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
// before anything is written or requested.
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
	Secret      bool   `json:"secret"` // it may come from a file
	Description string `json:"description"`

	field reflect.StructField
	value reflect.Value
}

// reader turns an environment into a Config and collects what is odd on the way.
type reader struct {
	environ  map[string]string
	settings []*Setting
	problems []Problem
	warnings []string
}

// noVariables is a prefix that no variable of the process can have.
const noVariables = "\x00"

// read fills the fields of a group. envconfig knows their names and sets the defaults. The texts
// that were found are decoded here: envconfig stops at the first that does not fit and quotes it,
// and reads the environment of the process alone.
func (r *reader) read(g group, fields any) {
	if envconfig.Process(noVariables, fields) != nil {
		panic("configuration: a default is invalid") // the tag is ours; a test reads every default
	}
	for _, s := range settingsOf(g, fields) {
		r.settings = append(r.settings, s)
		text := r.find(s)
		s.Value = text
		if text == "" {
			s.Value = s.Default
			continue
		}
		if v, err := decode(s.field.Type, text); err != nil {
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
			err = errors.New("is not a duration; write it like 30s, 5m, 2h or 30d")
		}
	case *bool:
		if *field, err = strconv.ParseBool(text); err != nil {
			err = errors.New("must be true or false")
		}
	case *float64:
		if *field, err = strconv.ParseFloat(text, 64); err != nil {
			err = errors.New("is not a number; write it like 5 or 0.5")
		}
	default:
		v.Elem().SetString(text)
	}
	return v.Elem(), err
}

// settingsOf lists the variables of a group. The names come from envconfig itself. A group is flat:
// a name for each field.
func settingsOf(g group, fields any) []*Setting {
	prefix := "DOORBELL"
	if g == GroupNATS {
		prefix = "NATS"
	}
	var names bytes.Buffer
	err := envconfig.Usagef(prefix, fields, &names, "{{range .}}{{usage_key .}} {{end}}")
	if err != nil {
		panic(err) // the struct is ours
	}
	var all []*Setting
	value := reflect.ValueOf(fields).Elem()
	for i, name := range strings.Fields(names.String()) {
		f := value.Type().Field(i)
		_, perAgency := value.Field(i).Interface().(PerAgency)
		all = append(all, &Setting{
			Group: g, Name: name, Default: f.Tag.Get("default"), Description: f.Tag.Get("desc"),
			Secret: f.Type == reflect.TypeFor[Secret]() || perAgency && f.Tag.Get("is") != "file",
			field:  f, value: value.Field(i),
		})
	}
	return all
}

// All are the variables of every group with their defaults.
func All() []*Setting {
	return slices.Concat(settingsOf(GroupPoll, &Poll{}), settingsOf(GroupBase, &Base{}),
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
	if s.Secret {
		text += " Also as " + s.Name + FileSuffix + "."
	}
	return text
}

// texts are the parts of a value that are checked one by one, each with words for a sentence about
// it: the values by agency, the entries of a list, or the whole text.
func (s *Setting) texts() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		switch v := s.value.Interface().(type) {
		case PerAgency:
			for agency, secret := range v.All() {
				whose := "for " + agency + " "
				if agency == AnyAgency {
					whose = ""
				}
				if !yield(whose, secret.Reveal()) {
					return
				}
			}
		case List:
			for n, entry := range v {
				if !yield("entry "+strconv.Itoa(n+1)+" ", entry) {
					return
				}
			}
		case Secret:
			yield("", v.Reveal())
		case string:
			yield("", v)
		}
	}
}

// login is the user, and the password, in an address.
var login = regexp.MustCompile(`[^/,]*@`)

// shown is the value as it may be printed.
func (s *Setting) shown() string {
	is := s.field.Tag.Get("is")
	switch v := s.value.Interface().(type) {
	case Secret:
		return v.Fingerprint()
	case PerAgency:
		var parts []string
		for agency, secret := range v.All() {
			text := secret.Reveal()
			switch is {
			case "address":
				text = MaskedURL(text)
			case "key", "whsec":
				text = secret.Fingerprint()
			}
			parts = append(parts, agency+"="+text)
		}
		return strings.Join(parts, ",")
	}
	if is == "servers" || is == "smtp" {
		return login.ReplaceAllString(s.Value, "***@")
	}
	return s.Value
}

func (r *reader) wrong(name, text string) { r.problems = append(r.problems, Problem{name, text}) }

// wrongIf reports what is wrong with a variable, unless something else is already.
func (r *reader) wrongIf(is bool, name, text string) {
	if is && r.good(name) {
		r.wrong(name, text)
	}
}

// good reports whether nothing is wrong with any of the variables so far. One that was not read is
// good.
func (r *reader) good(names ...string) bool {
	return !slices.ContainsFunc(r.problems, func(p Problem) bool {
		return slices.Contains(names, p.Name) ||
			slices.Contains(names, strings.TrimSuffix(p.Name, FileSuffix))
	})
}
