package config

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Sources of a value. A file is "file" and its path.
const (
	SourceDefault     = "default"
	sourceEnvironment = "environment"
	sourceFile        = "file "
)

// FileSuffix makes the name of a variable that holds the path of a file with the value.
const FileSuffix = "_FILE"

// maxFile bounds what is read of a file that a variable names.
const maxFile = 1 << 20

// find looks up the text of a setting: the variable, for a secret also the file that NAME_FILE
// names, and the credential of systemd. Empty counts as not set.
func (r *reader) find(s *Setting) (text string) {
	name := r.variable(s.Name)
	text, named, path := r.environ[name], s.Name+FileSuffix, ""
	if s.Secret {
		path = strings.TrimSpace(r.environ[named])
	} else {
		text = strings.TrimSpace(text)
	}
	if s.Secret && text == "" && path == "" {
		named, path = s.Name, r.credential(s.Name)
	}
	s.Source = SourceDefault
	switch {
	case text != "" && path != "":
		s.Source = sourceEnvironment
		r.wrong(s.Name, "and "+named+" are both set; keep one of them")
		return ""
	case path != "":
		s.Source = sourceFile + quoted(path)
		if text = r.file(named, path); text != "" {
			s.Source = sourceFile + path
		}
	case name != s.Name:
		s.Source = sourceEnvironment + " " + name
	case text != "":
		s.Source = sourceEnvironment
	}
	text = strings.TrimRight(text, "\r\n")
	if !s.Secret && !isLine(text) {
		r.wrong(s.Name, "contains a control character or is not UTF-8; write it again on one line")
		return ""
	}
	return text
}

// variable returns the name of the variable that a setting is read from: DOORBELL_NATS_URL wins
// over NATS_URL.
func (r *reader) variable(setting string) string {
	if setting == "NATS_URL" && r.environ["DOORBELL_NATS_URL"] != "" {
		return "DOORBELL_NATS_URL"
	}
	return setting
}

// credential returns the path of the credential that systemd's LoadCredential= made for a variable:
// api_key for DOORBELL_API_KEY, nats_token for NATS_TOKEN. It is empty if there is none.
func (r *reader) credential(name string) string {
	directory := r.environ["CREDENTIALS_DIRECTORY"]
	path := filepath.Join(directory, strings.ToLower(strings.TrimPrefix(name, "DOORBELL_")))
	if _, err := os.Stat(path); directory == "" || err != nil {
		return ""
	}
	return path
}

// file returns the text of the file that a variable names. A problem is reported, and gives an empty
// text.
func (r *reader) file(name, path string) string {
	text, trouble := ReadFile(path)
	if trouble == "" && strings.TrimSpace(text) == "" {
		trouble = "is empty; write the value into it"
	}
	if trouble != "" {
		r.wrong(name, "names "+quoted(path)+", which "+trouble)
		return ""
	}
	return strings.TrimPrefix(text, "\uFEFF")
}

// quoted returns a path that could not be read, for people. One that is not absolute may be the
// secret itself, written into the variable of its file by mistake.
func quoted(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return "a relative path"
}

// ReadFile reads a regular file, and says in words why it cannot.
func ReadFile(path string) (text, trouble string) {
	info, err := os.Stat(path)
	var data []byte
	switch {
	case err != nil:
	case !info.Mode().IsRegular() || info.Size() > maxFile:
		return "", "is not a regular file of at most 1 MiB; name a file that holds only the value"
	default:
		data, err = os.ReadFile(path)
	}
	switch {
	case err == nil:
		return string(data), ""
	case errors.Is(err, fs.ErrNotExist):
		return "", "does not exist; create the file or correct the path"
	}
	return "", "cannot be read; make it belong to the user that runs doorbell, with mode 0600"
}

// RereadEvery is how often files are read while they are in use.
const RereadEvery = 10 * time.Second

// Watch reads until ctx ends, and calls act with what has changed since; only act can fail. A
// reading counts once two in a row agree, because half a file parses too and says less than the
// whole. One that was asked for counts immediately.
func Watch[R any](ctx context.Context, asked <-chan os.Signal, acted R, read func() R,
	act func(R) error,
) error {
	tick := time.NewTicker(RereadEvery)
	defer tick.Stop()
	for seen := acted; ; {
		now := false
		select {
		case <-ctx.Done():
			return nil
		case <-asked:
			now = true
		case <-tick.C:
		}
		before := seen
		seen = read()
		if now || reflect.DeepEqual(seen, before) && !reflect.DeepEqual(seen, acted) {
			acted = seen
			if err := act(seen); err != nil {
				return err
			}
		}
	}
}

// isLine reports whether a text is one line of readable characters.
func isLine(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}
