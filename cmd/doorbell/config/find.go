package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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

// largestFile bounds what is read of a file with a secret.
const largestFile = 1 << 20

// find looks a variable up: the variable itself, for a secret also the file that NAME_FILE names,
// and the credential that the service manager handed over. Empty counts as not set. It reports
// whether there is a usable text.
func (r *reader) find(s *Setting) bool {
	name, text := r.variable(s.Name)
	named, path := s.Name+FileSuffix, ""
	if s.Secret {
		path = strings.TrimSpace(r.environ[named])
	} else {
		text = strings.TrimSpace(text)
	}
	if s.Secret && text == "" && path == "" {
		named, path = s.Name, r.credential(s.Name)
	}
	switch {
	case text != "" && path != "":
		r.wrong(s.Name, "and "+named+" are both set; keep one of them")
		text, s.Source = "", sourceEnvironment
	case path != "":
		text, s.Source = r.file(named, path), sourceFile+path
	case text == "":
		s.Source = SourceDefault
	case name != s.Name:
		s.Source = sourceEnvironment + " " + name
	default:
		s.Source = sourceEnvironment
	}
	if s.text = strings.TrimRight(text, "\r\n"); !s.Secret && !plain(text) {
		r.wrong(s.Name, "holds a control character or is not UTF-8; write it again on one line")
		return false
	}
	return s.text != ""
}

// variable returns the variable that a setting is read from and its text. DOORBELL_NATS_URL stands
// before NATS_URL.
func (r *reader) variable(name string) (from, text string) {
	if ours := r.environ["DOORBELL_"+name]; name == "NATS_URL" && ours != "" {
		return "DOORBELL_NATS_URL", ours
	}
	return name, r.environ[name]
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

// file returns the text of the file that a variable names; what is wrong with it is reported and
// gives nothing. A path that looks like none may be the secret itself, and is not quoted.
func (r *reader) file(name, path string) string {
	text, trouble := ReadFile(path)
	if trouble == "" && strings.TrimSpace(text) == "" {
		trouble = "is empty; write the value into it"
	}
	switch {
	case trouble == "":
		return strings.TrimPrefix(text, "\uFEFF")
	case strings.ContainsAny(path, "/."):
		r.wrong(name, "names "+path+", which "+trouble)
	default:
		r.wrong(name, "does not name a file that can be read; if it holds the secret itself, "+
			"leave "+FileSuffix+" out of the name of the variable")
	}
	return ""
}

// ReadFile reads a regular file, and says in words why it cannot.
func ReadFile(path string) (text, trouble string) {
	info, err := os.Stat(path)
	var data []byte
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		return "", "is not a regular file; name a file that holds the value"
	case info.Size() > largestFile:
		return "", "is larger than 1 MiB; name a file that holds the value alone"
	default:
		data, err = os.ReadFile(path)
	}
	switch {
	case err == nil:
		return string(data), ""
	case errors.Is(err, fs.ErrNotExist):
		return "", "does not exist; make the file or correct the path"
	case errors.Is(err, fs.ErrPermission):
		return "", "this user may not read; give it to the user that runs doorbell, mode 0600"
	}
	return "", "cannot be read; look at the file and its disk"
}

// plain reports whether a text is one line of readable characters.
func plain(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}
