package webhook_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"doorbell/events"
	"doorbell/events/forward"
	"doorbell/events/forward/forwardtest"
	"doorbell/events/forward/webhook"
)

// service responds like one that a recipe is for, as far as its documentation states what it demands.
type service struct {
	path string
	// credential is what is written in the recipe, and what the service knows instead.
	credential, secret string
	// knows reports whether a request brings the credential; nil: it is part of the address.
	knows func(http.Header, string) bool
	// body is the JSON Schema of what it accepts; refuses finds what a schema cannot express.
	body    string
	refuses func(h http.Header, body string) bool
	// The statuses with which it takes something, and answers a wrong credential and too many requests,
	// after which it wants a pause.
	takes, denied, limited int
	wait                   time.Duration
	waitIn                 string // the body that asks to wait, instead of Retry-After
}

func bearer(h http.Header, secret string) bool { return h.Get("Authorization") == "Bearer "+secret }

// long reports whether a text is longer than chats take.
func long(_ http.Header, body string) bool {
	var m struct{ Text string }
	return json.Unmarshal([]byte(body), &m) != nil || len(utf16.Encode([]rune(m.Text))) > 4096
}

var services = map[string]service{
	// https://learn.microsoft.com/azure/connectors/connectors-native-reqres: 202 without a Response
	// action, 400 where the body does not fit the trigger's schema, 401 for a wrong sig.
	"power-automate": {
		path: "/workflows/1/triggers/manual/paths/invoke?api-version=2016-06-01&sig=s",
		body: `{"type":"object","additionalProperties":false,"patternProperties":{"^(id|agency|reference|createdAt|score|firstName|lastName|
			company|email|phone|language|message|title|street|postalCode|locality|url)$":{"type":"string"}},
			"properties":{"test":{"type":"boolean"},"price":{"type":"number"}}}`,
		takes: 202, denied: 401, limited: 429, wait: 9 * time.Second,
	},
	// https://docs.n8n.io/integrations/builtin/core-nodes/n8n-nodes-base.webhook: header auth answers 403,
	// an inactive workflow 404.
	"n8n": {
		path: "/webhook/3c2e", credential: "THE_VALUE_OF_THE_CREDENTIAL", secret: "n8n-sentinel", knows: bearer,
		body: `{"type":"object","additionalProperties":false,"properties":{"event":{"type":"object"},"reference":{"type":"string"},
			"score":{"type":"number"},"contact":{"type":"object"},"insertion":{"type":"object"}}}`,
		takes: 200, denied: 403, limited: 404,
	},
	// https://developers.hubspot.com/docs/api-reference/crm-contacts-v3/guide: a text for each property,
	// 201; a known e-mail address is a 409, an invalid one a 400.
	"hubspot": {
		path: "/crm/v3/objects/contacts", credential: "THE_TOKEN_OF_YOUR_PRIVATE_APP", secret: "pat-eu1-sentinel", knows: bearer,
		body: `{"type":"object","additionalProperties":false,"required":["properties"],"properties":{"properties":{
			"type":"object","minProperties":1,"additionalProperties":false,
			"patternProperties":{"^(firstname|lastname|company|phone|address|zip|city|message|lifecyclestage)$":{"type":"string","maxLength":65536}},
			"properties":{"email":{"type":"string","pattern":"^[^@\\s]+@[^@\\s]+$"}}}}}`,
		takes: 201, denied: 401, limited: 429,
	},
	// https://docs.followupboss.com/reference/events-post: the key is the user of Basic authentication;
	// 201 for a new person, 200 for a known one, 204 where the lead flow is archived.
	"follow-up-boss": {
		path: "/v1/events", credential: "BASE64_OF_YOUR_API_KEY_AND_A_COLON", secret: base64.StdEncoding.EncodeToString([]byte("fka_sentinel:")),
		knows: func(h http.Header, secret string) bool {
			return h.Get("Authorization") == "Basic "+secret && h.Get("X-System") != "" && h.Get("X-System-Key") != ""
		},
		body: `{"type":"object","additionalProperties":false,"required":["person"],
			"patternProperties":{"^(source|system|message|description)$":{"type":"string"}},
			"properties":{"type":{"const":"Property Inquiry"},
			"person":{"type":"object","minProperties":1,"additionalProperties":false,"properties":{
				"firstName":{"type":"string"},"lastName":{"type":"string"},"emails":{"$ref":"#/$defs/values"},"phones":{"$ref":"#/$defs/values"},
				"addresses":{"type":"array"}}},
			"property":{"type":"object","properties":{"price":{"type":"number"},"street":{"type":"string"},"city":{"type":"string"},
				"code":{"type":"string"},"url":{"type":"string"},"mlsNumber":{"type":"string"}}}},
			"$defs":{"values":{"type":"array","items":{"type":"object","required":["value"],"properties":{"value":{"type":"string","minLength":1}}}}}}`,
		takes: 201, denied: 401, limited: 429, wait: 10 * time.Second,
	},
	// https://docs.ntfy.sh/publish: the body is the message, headers may be encoded words (RFC 2047); a
	// message of more than 4096 bytes would become an attachment.
	"ntfy": {
		path: "/agency-leads", credential: "THE_TOKEN_OF_THE_TOPIC", secret: "tk_sentinel", knows: bearer,
		refuses: func(h http.Header, body string) bool {
			priority := slices.Contains([]string{"min", "low", "default", "high", "max", "urgent"}, h.Get("Priority"))
			title := titleOf(h)
			return len(body) > 4096 || !utf8.ValidString(body) || !priority || strings.ContainsAny(title, "\r\n") || len(title) > 1024
		},
		takes: 200, denied: 403, limited: 429,
	},
	// https://core.telegram.org/bots/api#sendmessage: 1 to 4096 characters.
	"telegram": {
		path: "/bot1:sentinel/sendMessage", credential: "THE_ID_OF_THE_CHAT", secret: "-1001234567890",
		body: `{"type":"object","additionalProperties":false,"required":["chat_id","text"],"properties":{
			"chat_id":{"type":"string","pattern":"^(-?\\d+|@\\w+)$"},"text":{"type":"string","pattern":"\\S"},"link_preview_options":{"type":"object"}}}`,
		refuses: long, takes: 200, denied: 401, limited: 429, wait: 5 * time.Second,
		waitIn: `{"ok":false,"error_code":429,"description":"Too Many Requests: retry after 5","parameters":{"retry_after":5}}`,
	},
	// https://developers.google.com/workspace/chat/quickstart/webhooks and format-messages: text of at most
	// 4096 characters, in which <users/all> would notify everybody and <url|text> hides an address.
	"google-chat": {
		path:    "/v1/spaces/S/messages?key=k&token=t",
		body:    `{"type":"object","additionalProperties":false,"required":["text"],"properties":{"text":{"type":"string","pattern":"^[^<]+$"}}}`,
		refuses: long, takes: 200, denied: 403, limited: 429,
	},
}

func titleOf(h http.Header) string {
	title, err := new(mime.WordDecoder).DecodeHeader(h.Get("Title"))
	if err != nil {
		return "\n"
	}
	return title
}

// texts are all texts of a JSON document; if it is not JSON, the whole document.
func texts(body string) (all []string) {
	var value any
	if json.Unmarshal([]byte(body), &value) != nil {
		return []string{body}
	}
	_, all = shape(value)
	return all
}

// status is what the service answers to a request.
func (s service) status(t *testing.T, q *http.Request, body string, limited bool) int {
	switch {
	case q.Method != http.MethodPost || q.URL.RequestURI() != s.path, s.knows != nil && !s.knows(q.Header, s.secret):
		return s.denied
	case limited:
		return s.limited
	case s.refuses != nil && s.refuses(q.Header, body):
		return http.StatusBadRequest
	case s.body == "":
		return s.takes
	}
	schema, err := jsonschema.UnmarshalJSON(strings.NewReader(strings.NewReplacer("\n", "", "\t", "").Replace(s.body)))
	must(t, err)
	c := jsonschema.NewCompiler()
	must(t, c.AddResource("body", schema))
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
	isJSON := err == nil && strings.HasPrefix(q.Header.Get("Content-Type"), "application/json")
	if !isJSON || c.MustCompile("body").Validate(document) != nil {
		return http.StatusBadRequest
	}
	if strings.Contains(body, "known-zq7@") {
		return http.StatusConflict
	}
	return s.takes
}

// recipe is a file of recipes, with a secret in the place of what the reader fills in.
func recipe(t *testing.T, name, credential, secret string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("recipes", name+".json"))
	must(t, err)
	if credential != "" && !strings.Contains(string(text), credential) {
		t.Errorf("the recipe has no place for %s", credential)
	}
	return strings.ReplaceAll(string(text), credential, secret)
}

// TestEachServiceAcceptsItsRecipe sends leads as agencies get them to a server for each recipe.
func TestEachServiceAcceptsItsRecipe(t *testing.T) {
	files, _ := filepath.Glob("recipes/*.json")
	if len(files) != len(services) {
		t.Errorf("there are %d recipes and %d services", len(files), len(services))
	}
	for name, s := range services {
		t.Run(name, func(t *testing.T) {
			got, limited := "", false
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				body, _ := io.ReadAll(q.Body)
				got = titleOf(q.Header) + "\n" + strings.Join(texts(string(body)), "\n")
				status := s.status(t, q, string(body), limited)
				if status == s.limited && s.wait > 0 && s.waitIn == "" {
					w.Header().Set("Retry-After", fmt.Sprint(s.wait.Seconds()))
				}
				w.WriteHeader(status)
				if status == s.limited {
					_, _ = io.WriteString(w, s.waitIn)
				}
			}))
			defer server.Close()
			made := parsed(t, recipe(t, name, s.credential, s.secret))
			if !slices.Contains(made.Types, "contact_request.created") {
				t.Errorf("the types are %q", made.Types)
			}
			w := open(t, webhook.Options{URL: server.URL + s.path, Template: made})
			full := events.Contact{
				Salutation: "Frau", FirstName: "Zoë", LastName: "Beispiel-zq7", Company: "Muster AG", Language: "de",
				Email: person, Phone: "+41790000123", PhoneRaw: "079 000 01 23",
				Address: &events.Address{Street: "Seefeldstrasse 1", PostalCode: "8008", Locality: "Zürich"},
				Message: "Guten Tag\nIch möchte die \"Wohnung\" sehen.",
			}
			takes := func(c events.Contact, title string, wanted ...string) {
				t.Helper()
				if err := w.Send(t.Context(), one(leadOf(t, c, title))); err != nil {
					t.Errorf("%.200q: %v", fmt.Sprint(c, title), err)
				}
				for _, want := range wanted {
					if !strings.Contains(got, want) {
						t.Errorf("%q is missing in %q", want, got)
					}
				}
			}
			wanted := []string{"Zoë", "Beispiel-zq7", person, full.Message}
			if name == "ntfy" {
				wanted[1] = "Loft am See"
			}
			takes(full, "Loft am See", wanted...)
			takes(events.Contact{FullName: "Nora Beispiel-zq7"}, "")
			takes(events.Contact{Email: person}, "")
			takes(events.Contact{PhoneRaw: "079 000 01 23", Message: "?"}, "")
			for _, evil := range hostile {
				takes(events.Contact{
					FirstName: evil, LastName: evil, Company: evil, Email: person, PhoneRaw: evil, Message: evil,
					Address: &events.Address{Street: evil},
				}, evil)
			}
			if name == "hubspot" {
				takes(events.Contact{Email: "known-zq7@example.org"}, "")
				var refused *forward.Refused
				err := w.Send(t.Context(), one(leadOf(t, events.Contact{Email: "@@"}, "")))
				if !errors.As(err, &refused) || refused.Certain {
					t.Errorf("an invalid address: %v", err)
				}
			}
			limited = true
			var retry *forward.Retry
			err := w.Send(t.Context(), one(leadOf(t, full, "")))
			if !errors.As(err, &retry) || !retry.Receiver || retry.After != s.wait {
				t.Errorf("a limit: %#v, want %s", err, s.wait)
			}
			denied := webhook.Options{URL: server.URL + "/other", Template: made}
			if s.knows != nil {
				other := parsed(t, recipe(t, name, s.credential, "b3RoZXI6"))
				denied = webhook.Options{URL: server.URL + s.path, Template: other}
			}
			err = open(t, denied).Send(t.Context(), one(leadOf(t, full, "")))
			if !errors.As(err, &retry) || !retry.Receiver || strings.Contains(err.Error(), "sentinel") {
				t.Errorf("a wrong credential: %v", err)
			}
		})
	}
}

// An alert has no contact: of the recipes, that for ntfy takes alerts too.
func TestTheRecipeForNtfyTakesAlerts(t *testing.T) {
	header, body := posted(t, recipe(t, "ntfy", "", ""), forwardtest.Example(t, events.TypeAccessHalted))
	if header.Get("Title") != "doorbell: access.halted A100" || header.Get("Priority") != "high" || header["Click"] != nil ||
		!strings.HasPrefix(body, "The API refuses this key") {
		t.Errorf("%v %q", header, body)
	}
}
