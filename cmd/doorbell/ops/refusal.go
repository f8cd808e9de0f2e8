package ops

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"html/template"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"doorbell/poller"
)

var (
	errTooLarge = errors.New("the body is too large, or did not come whole")
	errNoForm   = errors.New("this takes a small form (application/x-www-form-urlencoded)")
	errChunked  = errors.New("say how long the body is (Content-Length)")
	errBusy     = errors.New("too many requests are being answered, or live streams open; close one")
	errNoAgency = errors.New("the form names no agency")
)

// codes are the statuses of errors; 500 for all others.
var codes = map[error]int{
	errWrongToken: http.StatusUnauthorized, errNeedsToken: http.StatusUnauthorized, errManyTokens: http.StatusTooManyRequests,
	errNoToken: http.StatusForbidden, errNotLocal: http.StatusForbidden, errForeign: http.StatusForbidden,
	errTooLarge: http.StatusRequestEntityTooLarge, errNoForm: http.StatusUnsupportedMediaType, errNoAgency: http.StatusBadRequest, errBody: http.StatusBadRequest,
	errBusy: http.StatusServiceUnavailable, errChunked: http.StatusLengthRequired, poller.ErrUnknownAgency: http.StatusNotFound,
}

func codeOf(err error) int {
	for known, code := range codes {
		if errors.Is(err, known) {
			return code
		}
	}
	return http.StatusInternalServerError
}

// refuse answers with an error: a page for people, JSON for programs.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	code := codeOf(err)
	switch code {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="doorbell"`)
	case http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "60")
	}
	if forPeople(r) {
		plainPage(w, code, plain{Title: http.StatusText(code), Text: aSentence(err)})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(problem{Error: err.Error()}) //nolint:errcheck // a client that hung up
}

// signIn asks a person for the token, and a program to show it.
func signIn(w http.ResponseWriter, r *http.Request, err error) {
	if !forPeople(r) {
		if err == nil {
			err = errNeedsToken
		}
		refuse(w, r, err)
		return
	}
	p := plain{Title: "Sign in", Form: true, Text: "The token is the value of DOORBELL_HTTP_TOKEN."}
	code := http.StatusUnauthorized
	if err != nil {
		p.Title, p.Text, code = "Sign in again", aSentence(err), codeOf(err)
	}
	plainPage(w, code, p)
}

// aSentence is an error on a page of its own.
func aSentence(err error) string {
	first, n := utf8.DecodeRuneInString(err.Error())
	return string(unicode.ToUpper(first)) + err.Error()[n:] + "."
}

// forPeople reports whether the one who asks is shown pages.
func forPeople(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }

// form does a verb with what a form of the page says, and leads back to the page with the word for what came of it.
func form(verb func(agency, insertion string) (done string, err error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		agency := r.PostForm.Get("agency")
		if agency == "" {
			refuse(w, r, errNoAgency)
			return
		}
		done, err := verb(agency, r.PostForm.Get("insertion"))
		if err != nil {
			refuse(w, r, err)
			return
		}
		home(w, done, agency)
	}
}

// plain is a page that needs nothing else, for who may see nothing else.
type plain struct {
	Title, Text string
	Form        bool
}

const plainStyle = `body{font:1rem/1.5 system-ui,sans-serif;max-width:30rem;margin:12vh auto;padding:0 1rem;color:#1b1f24;background:#fff}` +
	`h1{font-size:1.25rem}input,button{font:inherit;padding:.5rem .7rem;border:1px solid #8a939d;border-radius:6px;width:100%;box-sizing:border-box}` +
	`button{margin-top:.7rem;border-color:#1b1f24;background:#1b1f24;color:#fff;cursor:pointer}` +
	`@media (prefers-color-scheme:dark){body{color:#e6e9ec;background:#14171a}input{background:#1e2227;color:inherit}button{background:#e6e9ec;color:#14171a}a{color:#8ab4f8}}`

var plainTemplate = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>{{.Title}} · doorbell</title><link rel="icon" href="data:,"><style>` + plainStyle + `</style></head>
<body><main><h1>{{.Title}}</h1>
<p>{{.Text}}</p>
{{if .Form}}<form method="post" action="/session"><label>Token <input type="password" name="token" autocomplete="current-password" required autofocus></label>
<button>Sign in</button></form>{{else}}<p><a href="/">Back to the page</a></p>{{end}}
</main></body></html>
`))

// plainPolicy is contentPolicy for a page whose style stands in it.
var plainPolicy = func() string {
	sum := sha256.Sum256([]byte(plainStyle))
	return strings.Replace(contentPolicy, "style-src 'self'", "style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'", 1)
}()

func plainPage(w http.ResponseWriter, code int, p plain) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", plainPolicy)
	w.WriteHeader(code)
	plainTemplate.Execute(w, p) //nolint:errcheck // a client that hung up
}
