package slack

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// checkAddress refuses an address of Slack's that is not that of an incoming webhook. Services that
// speak like it have their own.
func checkAddress(u *url.URL) error {
	host := strings.ToLower(u.Hostname())
	if host != "hooks.slack.com" && host != "hooks.slack-gov.com" {
		return nil
	}
	switch name, found := strings.CutPrefix(u.Path, "/services/"); {
	case !found:
		return fmt.Errorf("the URL at %s is not that of an incoming webhook, which begins with https://%s/services/; workflow URLs accept no messages", host, host)
	case strings.Trim(name, "/") == "":
		return errors.New(
			"the part of the webhook URL that names the webhook is missing; copy all of it")
	}
	return nil
}
