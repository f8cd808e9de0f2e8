package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

const (
	secretPrefix = "whsec_"
	maxSecrets   = 2
	// minKey and maxKey are the sizes of a key that Standard Webhooks allows, in bytes.
	minKey = 24
	maxKey = 64
)

// parseSecrets reads none, one or two secrets. The error quotes nothing.
func parseSecrets(text string) (keys [][]byte, err error) {
	for _, secret := range strings.Fields(text) {
		encoded, found := strings.CutPrefix(secret, secretPrefix)
		key, err := base64.StdEncoding.DecodeString(encoded)
		if !found || err != nil || len(key) < minKey || len(key) > maxKey {
			return nil, ErrSecret
		}
		keys = append(keys, key)
	}
	if len(keys) > maxSecrets {
		return nil, ErrSecret
	}
	return keys, nil
}

// sign is the value of webhook-signature: one signature for each key, with spaces between. A
// receiver that knows one of the keys is content.
func sign(keys [][]byte, id, timestamp string, body []byte) string {
	signatures := make([]string, len(keys))
	for i, key := range keys {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + timestamp + "."))
		mac.Write(body)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return strings.Join(signatures, " ")
}

// ValidSecrets checks a text for Options.Secrets. The error quotes nothing.
func ValidSecrets(text string) error {
	_, err := parseSecrets(text)
	return err
}
