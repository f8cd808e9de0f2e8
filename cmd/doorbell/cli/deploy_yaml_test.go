package cli

import (
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// node is a part of a YAML document: a map, a list or a value. A part that is not there is the zero node.
type node struct{ v any }

// documents reads all documents of a text.
func documents(t *testing.T, text string) (all []node) {
	t.Helper()
	decoder := yaml.NewDecoder(strings.NewReader(text))
	for {
		var v any
		err := decoder.Decode(&v)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, node{v})
	}
}

// at follows names and, in lists, numbers: "spec.containers.0.image".
func (n node) at(path string) node {
	for name := range strings.SplitSeq(path, ".") {
		switch v := n.v.(type) {
		case map[string]any:
			n = node{v[name]}
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(v) {
				return node{}
			}
			n = node{v[i]}
		default:
			return node{}
		}
	}
	return n
}

func (n node) list() (all []node) {
	values, _ := n.v.([]any)
	for _, v := range values {
		all = append(all, node{v})
	}
	return all
}

func (n node) fields() map[string]node {
	values, _ := n.v.(map[string]any)
	all := make(map[string]node, len(values))
	for name, v := range values {
		all[name] = node{v}
	}
	return all
}

// text is a value as it is written; empty for one that is not there.
func (n node) text() string {
	switch v := n.v.(type) {
	case string:
		return v
	case int:
		return strconv.Itoa(v)
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}

func (n node) texts() (all []string) {
	for _, one := range n.list() {
		all = append(all, one.text())
	}
	return all
}

// wants fails the test unless what stands at a path is a value.
func (n node) wants(t *testing.T, what, path, value string) {
	t.Helper()
	if got := n.at(path).text(); got != value {
		t.Errorf("%s: %s is %q, not %q", what, path, got, value)
	}
}
