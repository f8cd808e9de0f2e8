// Package slack is the outlet for Slack's incoming webhooks: it turns events into messages that people read, posts them, and
// says what the answer means. When to send, how often to try and what to remember is not its business but the pipeline's
// (package forward).
//
// # What people see
//
// One contact request is a card: who, about which property, what they wrote, when, and links. With [Short] the name is cut to
// first name and initial, and no e-mail address or phone number is shown, nor what looks like one in the message; with [Full]
// all of it, and links to write and to call. Several that waited together are one message, a list by insertion with counts.
// Alerts look different: a coloured bar, what it means, what to do and the command to type; what befell many agencies for the
// same reason is told once. Test messages and replays say that they are.
//
// # What a stranger's text cannot do
//
// Names, messages and titles come from people we do not know. Two kinds of text keep them in their place: [plain] makes Slack's
// plain_text, in which nothing is markup, and takes any string, cleaned, escaped and cut; [markup] is Slack's mrkdwn and is
// made only of words of this package, of numbers and dates it has formatted, and of addresses it has checked and encoded.
// Nobody is pinged, nothing is unfurled, and no message is larger than Slack takes, whatever an event holds.
//
// Links are markup and not Slack's buttons: a click on a button is also sent to the app that posted it, and an incoming webhook
// has none that answers, so that Slack marks the button as failed.
//
// # What is secret
//
// Whoever knows the webhook's address can post to the channel. It is in no error, no log and no Traits; an error names the
// host at most, and of an answer only words that Slack documents.
package slack
