package config

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Sources of a value. A file is "file" and its path.
const (
	SourceDefault     = "default"
	sourceEnvironment = "environment"
	SourceFile        = "file "
)

// FileSuffix makes the name of a variable that holds the path of a file with the value.
const FileSuffix = "_FILE"

// largestFile bounds what is read of a file with a secret.
const largestFile = 1 << 20

// find looks a variable up: the variable itself, then for a secret the file that NAME_FILE names,
// then the credential that the service manager handed over. Empty counts as not set. It reports
// whether there is a usable text.
func (r *reader) find(s *Setting) bool {
	s.Source = SourceDefault
	name, text := r.variable(s.Name)
	if s.Secret {
		return r.findSecret(s, text)
	}
	if text = strings.TrimSpace(text); text == "" {
		return false
	}
	s.text, s.Source = text, sourceEnvironment
	if name != s.Name {
		s.Source = sourceEnvironment + " " + name
	}
	if !plain(text) {
		r.wrong(s.Name, "holds a control character or is not UTF-8; write it again on one line")
		return false
	}
	return true
}

// variable returns the variable that a setting is read from and its text. DOORBELL_NATS_URL stands
// before NATS_URL.
func (r *reader) variable(name string) (from, text string) {
	if ours := r.environ["DOORBELL_"+name]; name == "NATS_URL" && ours != "" {
		return "DOORBELL_NATS_URL", ours
	}
	return name, r.environ[name]
}

func (r *reader) findSecret(s *Setting, text string) bool {
	path := strings.TrimSpace(r.environ[s.Name+FileSuffix])
	switch {
	case text != "" && path != "":
		r.wrong(s.Name, "and "+s.Name+FileSuffix+" are both set; keep one of them")
		return false
	case text != "":
		s.Source = sourceEnvironment
	case path != "":
		if text = r.readSecret(s.Name+FileSuffix, path); text != "" {
			r.warnReadable(s.Name+FileSuffix, path)
		}
		s.Source = SourceFile + path
	default:
		path = r.credential(s.Name)
		if path == "" {
			return false
		}
		text, s.Source = r.readSecret(s.Name, path), SourceFile+path
	}
	s.text = strings.TrimRight(text, "\r\n")
	return s.text != ""
}

// credential returns the path of the credential that systemd's LoadCredential= made for a variable:
// api_key for DOORBELL_API_KEY, nats_token for NATS_TOKEN. It is empty if there is none.
func (r *reader) credential(name string) string {
	directory := r.environ["CREDENTIALS_DIRECTORY"]
	if directory == "" {
		return ""
	}
	path := filepath.Join(directory, strings.ToLower(strings.TrimPrefix(name, "DOORBELL_")))
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// readSecret returns the text of a file; what is wrong with it is reported and gives nothing.
func (r *reader) readSecret(name, path string) string {
	text, trouble := ReadFile(path)
	if trouble == "" && strings.TrimSpace(text) == "" {
		trouble = "is empty; write the value into it"
	}
	if trouble != "" && !strings.ContainsAny(path, "/.") {
		r.wrong(name,
			"does not name a file that can be read; if it holds the secret itself, leave "+FileSuffix+" out of the name of the variable")
		return ""
	}
	if trouble != "" {
		r.wrong(name, "names "+path+", which "+trouble)
		return ""
	}
	return strings.TrimPrefix(text, "\uFEFF")
}

// ReadFile reads a regular file, and says in words why it cannot.
func ReadFile(path string) (text, trouble string) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		return "", "is not a regular file; name a file that holds the value"
	}
	if err != nil {
		return "", fileTrouble(err)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fileTrouble(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, largestFile+1))
	if err != nil {
		return "", fileTrouble(err)
	}
	if len(data) > largestFile {
		return "", "is larger than 1 MiB; name a file that holds the value alone"
	}
	return string(data), ""
}

func fileTrouble(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "does not exist; make the file or correct the path"
	case errors.Is(err, fs.ErrPermission):
		return "this user may not read; give it to the user that runs doorbell, mode 0600"
	}
	return "cannot be read; look at the file and its disk"
}

// readable returns the text of a file that a variable names, if one is named and can be read.
func (r *reader) readable(name, path string) (text string, ok bool) {
	if path == "" || !r.good(name) {
		return "", false
	}
	text, trouble := ReadFile(path)
	r.wrongIf(trouble != "", name, "names "+path+", which "+trouble)
	return text, trouble == ""
}

// warnReadable says that more people than needed can read a secret. What the service manager hands
// over is its business.
func (r *reader) warnReadable(name, path string) {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o077 == 0 {
		return
	}
	r.warn(name + " names " + path + ", which others can read or write; run: chmod 600 " + path)
}
