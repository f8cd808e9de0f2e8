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
	"net/mail"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"doorbell/events"
	"doorbell/events/forward"
	"doorbell/events/forward/webhook"
)

// service answers like one that a recipe is for, as far as its documentation says what it demands.
type service struct {
	path string
	// credential is what stands in the recipe, and what the service knows instead.
	credential, secret string
	// knows reports whether a request brings the credential; nil: it is part of the address.
	knows func(*http.Request, string) bool
	// take validates a request and answers it. What it got of a lead it returns.
	take func(w http.ResponseWriter, h http.Header, body []byte) string
	// denied and limited are its answers to a wrong credential and to too many requests.
	denied, limited func(http.ResponseWriter)
	wait            time.Duration // that limited asks for
}

func says(status int, body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func waits(then func(http.ResponseWriter), seconds string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { w.Header().Set("Retry-After", seconds); then(w) }
}

func bearer(q *http.Request, secret string) bool {
	return q.Header.Get("Authorization") == "Bearer "+secret
}

// object decodes a JSON body that may have these members only, with values of these types.
func object(h http.Header, body []byte, members map[string]string) (map[string]any, bool) {
	var got map[string]any
	if !strings.HasPrefix(h.Get("Content-Type"), "application/json") || json.Unmarshal(body, &got) != nil {
		return nil, false
	}
	for name, value := range got {
		if kind := strings.TrimPrefix(fmt.Sprintf("%T", value), "map[string]"); members[name] != kind {
			return nil, false
		}
	}
	return got, true
}

func texts(names ...string) map[string]string {
	members := map[string]string{}
	for _, name := range names {
		members[name] = "string"
	}
	return members
}

func address(text string) bool {
	a, err := mail.ParseAddress(text)
	return err == nil && a.Address == text
}

var services = map[string]service{
	// https://learn.microsoft.com/azure/connectors/connectors-native-reqres: 202 without a Response
	// action, 400 where the body does not fit the trigger's schema, 401 for a wrong sig.
	"power-automate": {
		path: "/workflows/1/triggers/manual/paths/invoke?api-version=2016-06-01&sig=s",
		take: func(w http.ResponseWriter, h http.Header, body []byte) string {
			members := texts("id", "agency", "reference", "createdAt", "score", "firstName", "lastName", "company", "email", "phone",
				"language", "message", "title", "street", "postalCode", "locality", "url")
			members["test"], members["price"] = "bool", "float64"
			got, ok := object(h, body, members)
			if !ok {
				says(400, `{"error":{"code":"TriggerInputSchemaMismatch","message":"The input body for trigger 'manual' did not match its schema definition."}}`)(w)
				return ""
			}
			w.WriteHeader(http.StatusAccepted)
			return fmt.Sprint(got["firstName"], got["lastName"], got["email"], got["message"])
		},
		denied:  says(401, `{"error":{"code":"DirectApiAuthorizationRequired","message":"The request must be authenticated only by Shared Access scheme."}}`),
		limited: waits(says(429, `{"error":{"code":"WorkflowRunsThrottled"}}`), "9"), wait: 9 * time.Second,
	},
	// https://docs.n8n.io/integrations/builtin/core-nodes/n8n-nodes-base.webhook: header auth answers 403,
	// an inactive workflow 404.
	"n8n": {
		path: "/webhook/3c2e", credential: "THE_VALUE_OF_THE_CREDENTIAL", secret: "n8n-sentinel", knows: bearer,
		take: func(w http.ResponseWriter, h http.Header, body []byte) string {
			got, ok := object(h, body, map[string]string{"event": "interface {}", "reference": "string", "score": "float64", "contact": "interface {}", "insertion": "interface {}"})
			if !ok {
				says(422, `{"code":422,"message":"Failed to parse request body"}`)(w)
				return ""
			}
			says(200, `{"message":"Workflow was started"}`)(w)
			contact, _ := got["contact"].(map[string]any)
			return fmt.Sprint(contact["firstName"], contact["lastName"], contact["email"], contact["message"])
		},
		denied:  says(403, `Authorization data is wrong!`),
		limited: says(404, `{"code":404,"message":"The requested webhook \"POST 3c2e\" is not registered."}`),
	},
	// https://developers.hubspot.com/docs/api-reference/crm-contacts-v3/guide: a text for each property,
	// 201; a known e-mail address is a 409, one that is none a 400.
	"hubspot": {
		path: "/crm/v3/objects/contacts", credential: "THE_TOKEN_OF_YOUR_PRIVATE_APP", secret: "pat-eu1-sentinel", knows: bearer,
		take: func(w http.ResponseWriter, h http.Header, body []byte) string {
			got, ok := object(h, body, map[string]string{"properties": "interface {}"})
			properties, _ := got["properties"].(map[string]any)
			known := []string{"email", "firstname", "lastname", "company", "phone", "address", "zip", "city", "message", "lifecyclestage"}
			for name, value := range properties {
				text, isText := value.(string)
				ok = ok && isText && slices.Contains(known, name) && len(text) <= 65536 && (name != "email" || address(text))
			}
			if !ok || len(properties) == 0 {
				says(400, `{"status":"error","message":"Property values were not valid","correlationId":"c","category":"VALIDATION_ERROR"}`)(w)
				return ""
			}
			if properties["email"] == "known-zq7@example.org" {
				says(409, `{"status":"error","message":"Contact already exists. Existing ID: 1","correlationId":"c","category":"CONFLICT"}`)(w)
				return "known"
			}
			says(201, `{"id":"1","properties":{}}`)(w)
			return fmt.Sprint(properties["firstname"], properties["lastname"], properties["email"], properties["message"])
		},
		denied:  says(401, `{"status":"error","message":"Authentication credentials not found.","correlationId":"c","category":"INVALID_AUTHENTICATION"}`),
		limited: says(429, `{"status":"error","message":"You have reached your ten_secondly_rolling limit.","errorType":"RATE_LIMIT","correlationId":"c","policyName":"TEN_SECONDLY_ROLLING"}`),
	},
	// https://docs.followupboss.com/reference/events-post: the key is the user of Basic authentication;
	// 201 for a new person, 200 for a known one, 204 where the lead flow is archived.
	"follow-up-boss": {
		path: "/v1/events", credential: "BASE64_OF_YOUR_API_KEY_AND_A_COLON", secret: base64.StdEncoding.EncodeToString([]byte("fka_sentinel:")),
		knows: func(q *http.Request, _ string) bool {
			user, password, ok := q.BasicAuth()
			return ok && user == "fka_sentinel" && password == "" && q.Header.Get("X-System") != "" && q.Header.Get("X-System-Key") != ""
		},
		take: func(w http.ResponseWriter, h http.Header, body []byte) string {
			members := texts("source", "system", "type", "message", "description")
			members["person"], members["property"] = "interface {}", "interface {}"
			got, ok := object(h, body, members)
			var lead struct {
				Person struct {
					FirstName, LastName string
					Emails, Phones      []struct{ Value string }
				}
				Property struct {
					Street, City, Code, URL, MlsNumber string
					Price                              float64
				}
			}
			p := &lead.Person
			ok = ok && json.Unmarshal(body, &lead) == nil && got["type"] == "Property Inquiry"
			for _, one := range slices.Concat(p.Emails, p.Phones) {
				ok = ok && one.Value != ""
			}
			if !ok || p.FirstName+p.LastName == "" && len(p.Emails)+len(p.Phones) == 0 {
				says(400, `{"errorMessage":"Person must have a name, an email or a phone."}`)(w)
				return ""
			}
			says(201, `{"id":1,"name":"x"}`)(w)
			email := ""
			if len(p.Emails) > 0 {
				email = p.Emails[0].Value
			}
			return fmt.Sprint(p.FirstName, p.LastName, email, got["message"])
		},
		denied:  says(401, `{"errorMessage":"Your API key is not valid."}`),
		limited: waits(says(429, `{"errorMessage":"Rate limit exceeded."}`), "10"), wait: 10 * time.Second,
	},
	// https://docs.ntfy.sh/publish: the body is the message, headers may be encoded words (RFC 2047); a
	// message of more than 4096 bytes would become an attachment.
	"ntfy": {
		path: "/agency-leads", credential: "THE_TOKEN_OF_THE_TOPIC", secret: "tk_sentinel", knows: bearer,
		take: func(w http.ResponseWriter, h http.Header, body []byte) string {
			title, err := new(mime.WordDecoder).DecodeHeader(h.Get("Title"))
			priority := slices.Contains([]string{"min", "low", "default", "high", "max", "urgent"}, h.Get("Priority"))
			if err != nil || len(body) > 4096 || !utf8.Valid(body) || !priority || strings.ContainsAny(title, "\r\n") || len(title) > 1024 {
				says(400, `{"code":40001,"http":400,"error":"invalid request"}`)(w)
				return ""
			}
			says(200, `{"id":"sPs71M8A2T","time":1643935928,"event":"message","topic":"agency-leads","message":"x"}`)(w)
			return title + "\n" + string(body)
		},
		denied:  says(403, `{"code":40301,"http":403,"error":"forbidden","link":"https://ntfy.sh/docs/publish/#authentication"}`),
		limited: says(429, `{"code":42901,"http":429,"error":"limit reached: too many requests; increase your limits with a paid plan, see https://ntfy.sh"}`),
	},
	// https://core.telegram.org/bots/api#sendmessage: 1 to 4096 characters; what is wrong stands in the
	// body, so does how long to wait.
	"telegram": {
		path: "/bot1:sentinel/sendMessage", credential: "THE_ID_OF_THE_CHAT", secret: "-1001234567890",
		take: func(w http.ResponseWriter, h http.Header, body []byte) string {
			got, ok := object(h, body, map[string]string{"chat_id": "string", "text": "string", "link_preview_options": "interface {}"})
			text, _ := got["text"].(string)
			switch {
			case !ok || !regexp.MustCompile(`^(-?\d+|@\w+)$`).MatchString(fmt.Sprint(got["chat_id"])):
				says(400, `{"ok":false,"error_code":400,"description":"Bad Request: chat not found"}`)(w)
			case strings.TrimSpace(text) == "":
				says(400, `{"ok":false,"error_code":400,"description":"Bad Request: message text is empty"}`)(w)
			case len(utf16.Encode([]rune(text))) > 4096:
				says(400, `{"ok":false,"error_code":400,"description":"Bad Request: message is too long"}`)(w)
			default:
				says(200, `{"ok":true,"result":{"message_id":1}}`)(w)
				return text
			}
			return ""
		},
		denied:  says(401, `{"ok":false,"error_code":401,"description":"Unauthorized"}`),
		limited: says(429, `{"ok":false,"error_code":429,"description":"Too Many Requests: retry after 5","parameters":{"retry_after":5}}`), wait: 5 * time.Second,
	},
	// https://developers.google.com/workspace/chat/quickstart/webhooks and format-messages: text of at most
	// 4096 characters, in which <users/all> would notify everybody and <url|text> hides an address.
	"google-chat": {
		path: "/v1/spaces/S/messages?key=k&token=t",
		take: func(w http.ResponseWriter, h http.Header, body []byte) string {
			got, ok := object(h, body, texts("text"))
			text, _ := got["text"].(string)
			if !ok || text == "" || len(utf16.Encode([]rune(text))) > 4096 || strings.ContainsRune(text, '<') {
				says(400, `{"error":{"code":400,"message":"Message cannot be empty.","status":"INVALID_ARGUMENT"}}`)(w)
				return ""
			}
			says(200, `{"name":"spaces/S/messages/1"}`)(w)
			return text
		},
		denied:  says(403, `{"error":{"code":403,"message":"The caller does not have permission","status":"PERMISSION_DENIED"}}`),
		limited: says(429, `{"error":{"code":429,"message":"Resource has been exhausted (e.g. check quota).","status":"RESOURCE_EXHAUSTED"}}`),
	},
}

// recipe is a file of recipes, with a secret in the place of what the reader fills in.
func recipe(t *testing.T, name, credential, secret string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("recipes", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	if credential == "" {
		return string(text)
	}
	if !strings.Contains(string(text), credential) {
		t.Errorf("the recipe has no place for %s", credential)
	}
	return strings.ReplaceAll(string(text), credential, secret)
}

// TestRecipesAreTakenByTheServicesThatTheyAreFor sends leads as agencies get them to a server for each recipe.
func TestRecipesAreTakenByTheServicesThatTheyAreFor(t *testing.T) {
	files, _ := filepath.Glob("recipes/*.json")
	if len(files) != len(services) {
		t.Errorf("there are %d recipes and %d services", len(files), len(services))
	}
	for name, s := range services {
		t.Run(name, func(t *testing.T) {
			var (
				got     string
				limited bool
			)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				body, _ := io.ReadAll(q.Body)
				switch {
				case q.Method != http.MethodPost || q.URL.RequestURI() != s.path, s.knows != nil && !s.knows(q, s.secret):
					s.denied(w)
				case limited:
					s.limited(w)
				default:
					got = s.take(w, q.Header, body)
				}
			}))
			defer server.Close()
			made := parsed(t, recipe(t, name, s.credential, s.secret))
			if !slices.Contains(made.Types, "contact_request.created") {
				t.Errorf("the types are %q", made.Types)
			}
			w := open(t, webhook.Options{URL: server.URL + s.path, Template: made})
			full := events.Contact{
				Salutation: "Frau", FirstName: "Zoë", LastName: "Beispiel-zq7", Email: person, Phone: "+41790000123", PhoneRaw: "079 000 01 23", Language: "de",
				Company: "Muster AG", Address: &events.Address{Street: "Seefeldstrasse 1", PostalCode: "8008", Locality: "Zürich"}, Message: "Guten Tag\nIch möchte die \"Wohnung\" sehen.",
			}
			if err := w.Send(t.Context(), one(leadOf(t, full, "Loft am See"))); err != nil {
				t.Errorf("a lead: %v", err)
			}
			wanted := []string{"Zoë", "Beispiel-zq7", person, "Guten Tag\nIch möchte die \"Wohnung\" sehen."}
			if name == "ntfy" {
				wanted[1] = "Loft am See"
			}
			for _, want := range wanted {
				if !strings.Contains(got, want) {
					t.Errorf("%q is missing in %q", want, got)
				}
			}
			for _, c := range []events.Contact{{FullName: "Nora Beispiel-zq7"}, {Email: person}, {PhoneRaw: "079 000 01 23", Message: "?"}} {
				if err := w.Send(t.Context(), one(leadOf(t, c, ""))); err != nil {
					t.Errorf("%+v: %v", c, err)
				}
			}
			for _, evil := range hostile {
				c := events.Contact{FirstName: evil, LastName: evil, Company: evil, Email: person, PhoneRaw: evil, Message: evil, Address: &events.Address{Street: evil}}
				got = ""
				if err := w.Send(t.Context(), one(leadOf(t, c, evil))); err != nil || got == "" {
					t.Errorf("%.30q: %v", evil, err)
				}
			}
			if name == "hubspot" {
				if err := w.Send(t.Context(), one(leadOf(t, events.Contact{Email: "known-zq7@example.org"}, ""))); err != nil || got != "known" {
					t.Errorf("a known contact: %v", err)
				}
				var refused *forward.Refused
				if err := w.Send(t.Context(), one(leadOf(t, events.Contact{Email: "@@"}, ""))); !errors.As(err, &refused) || refused.Certain {
					t.Errorf("an address that is none: %v", err)
				}
			}
			limited = true
			var retry *forward.Retry
			if err := w.Send(t.Context(), one(leadOf(t, full, ""))); !errors.As(err, &retry) || !retry.Receiver || retry.After != s.wait {
				t.Errorf("a limit: %#v, want %s", err, s.wait)
			}
			limited = false
			denied := open(t, webhook.Options{URL: server.URL + "/other", Template: made})
			if s.knows != nil {
				denied = open(t, webhook.Options{URL: server.URL + s.path, Template: parsed(t, recipe(t, name, s.credential, "b3RoZXI6"))})
			}
			if err := denied.Send(t.Context(), one(leadOf(t, full, ""))); !errors.As(err, &retry) || !retry.Receiver || strings.Contains(err.Error(), "sentinel") {
				t.Errorf("a wrong credential: %v", err)
			}
		})
	}
}

// An alert has no contact: of the recipes, that for ntfy takes alerts too.
func TestTheRecipeForNtfyTakesAlerts(t *testing.T) {
	e, err := events.New(&events.AccessHalted{
		Common: events.Common{AgencyID: "A100", ObservedAt: lastNovember}, Scope: events.ScopeAgency, Operation: "insertions",
		Status: 403, Advice: "Give doorbell another key.", Evidence: events.Evidence{Body: "none"},
	})
	if err != nil {
		t.Fatal(err)
	}
	header, body := posted(t, recipe(t, "ntfy", "", ""), e.Stamp(1, lastNovember, "store"))
	if header.Get("Title") != "doorbell: access.halted A100" || header.Get("Priority") != "high" || header["Click"] != nil || body != "Give doorbell another key." {
		t.Errorf("%v %q", header, body)
	}
}
