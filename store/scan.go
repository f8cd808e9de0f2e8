package store

import (
	"encoding/base64"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// scanner reads JSON as putJSON writes it, without white space. Each poll reads all contact requests of an insertion, and each walk
// all insertions of an agency: for these a decoder by reflection takes more than twice the time. What is not of that form, or has a member
// that its reader does not know, is bad.
type scanner struct {
	rest []byte
	bad  bool
}

func (s *scanner) eat(c byte) bool {
	if len(s.rest) == 0 || s.rest[0] != c {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

func (s *scanner) need(c byte) {
	if !s.eat(c) {
		s.bad, s.rest = true, nil
	}
}

// object calls member with each name; member reads the value.
func (s *scanner) object(member func(name string)) {
	s.need('{')
	for more := !s.eat('}'); more && !s.bad; more = !s.eat('}') {
		s.eat(',')
		name := s.text()
		s.need(':')
		member(name)
	}
}

// array calls element for each of them, which reads it.
func (s *scanner) array(element func()) {
	s.need('[')
	for more := !s.eat(']'); more && !s.bad; more = !s.eat(']') {
		s.eat(',')
		element()
	}
}

// quoted is a string with its quotes.
func (s *scanner) quoted() (b []byte, escaped bool) {
	for n := 1; n < len(s.rest) && s.rest[0] == '"'; n++ {
		switch s.rest[n] {
		case '\\':
			escaped = true
			n++
		case '"':
			b, s.rest = s.rest[:n+1], s.rest[n+1:]
			return b, escaped
		}
	}
	s.bad, s.rest = true, nil
	return []byte(`""`), false
}

func (s *scanner) text() string {
	b, escaped := s.quoted()
	if !escaped {
		return string(b[1 : len(b)-1])
	}
	b, err := jsontext.AppendUnquote(nil, b)
	s.bad = s.bad || err != nil
	return string(b)
}

// bytes reads exactly as many as there is room for.
func (s *scanner) bytes(into []byte) {
	b, _ := s.quoted()
	if b = b[1 : len(b)-1]; base64.StdEncoding.EncodedLen(len(into)) != len(b) {
		s.bad = true
		return
	}
	var room [64]byte // Decode wants some for the padding
	n, err := base64.StdEncoding.Decode(room[:], b)
	s.bad = s.bad || err != nil || n != len(into)
	copy(into, room[:n])
}

func (s *scanner) time() (t time.Time) {
	b, _ := s.quoted()
	s.bad = t.UnmarshalText(b[1:len(b)-1]) != nil || s.bad
	return t
}

func (s *scanner) int() (n int) {
	digits := 0
	for ; digits < len(s.rest) && '0' <= s.rest[digits] && s.rest[digits] <= '9'; digits++ {
		n = n*10 + int(s.rest[digits]-'0')
	}
	s.bad = s.bad || digits == 0
	s.rest = s.rest[digits:]
	return n
}

func (s *scanner) truth() bool {
	for _, c := range []byte("true") {
		s.need(c)
	}
	return true
}
