package listings

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestTimesAreReadInAllTheirForms(t *testing.T) {
	zurich, err := time.LoadLocation("Europe/Zurich")
	if err != nil {
		t.Fatal(err)
	}
	for raw, want := range map[string]string{
		`"2026-11-20T09:41:07Z"`:                     "2026-11-20T09:41:07Z",
		`"2026-11-20T10:41:07+01:00"`:                "2026-11-20T09:41:07Z",
		`"2026-11-20T10:41:07.123+0100"`:             "2026-11-20T09:41:07.123Z",
		`"2026-11-20T10:41:07,5+0100"`:               "2026-11-20T09:41:07.5Z",
		`"2026-11-20T10:41:07+01"`:                   "2026-11-20T09:41:07Z",
		`"2026-11-20t09:41:07z"`:                     "2026-11-20T09:41:07Z",
		`"2026-11-20T10:41:07"`:                      "2026-11-20T09:41:07Z",
		`"2026-07-20 10:41"`:                         "2026-07-20T08:41:00Z",
		`"2026-10-25T02:30:00"`:                      "2026-10-25T01:30:00Z", // shown twice: the later one
		`"2026-03-29T02:30:00"`:                      "2026-03-29T01:30:00Z", // never shown: the later reading
		`1795167667`:                                 "2026-11-20T09:41:07Z",
		`1795167667123`:                              "2026-11-20T09:41:07.123Z",
		`"1795167667123"`:                            "2026-11-20T09:41:07.123Z",
		`1795167667.5`:                               "2026-11-20T09:41:07.5Z",
		`0`:                                          "",
		`631151999`:                                  "", // in 1989
		`816860467`:                                  "", // seconds since 2001, as Swift writes them, and no moment of 1995
		`639307644670000000`:                         "", // ticks of .NET, and no nanoseconds of 1990
		`944006400`:                                  "1999-12-01T00:00:00Z",
		`"1990-01-01T00:00:00Z"`:                     "1990-01-01T00:00:00Z",
		`"20261120094107"`:                           "",
		`"20261120"`:                                 "",
		`1.7e9`:                                      "",
		`1795167667123456`:                           "2026-11-20T09:41:07.123456Z",
		`"1795167667123456789"`:                      "2026-11-20T09:41:07.123456789Z",
		`"20261120094107123"`:                        "", // a written date, and no microseconds of 2612
		`"2611200941"`:                               "", // one of two digits, and no second of 2052
		`"2026-11-20 09:41:07 UTC"`:                  "2026-11-20T09:41:07Z",
		`"2026-11-20 09:41:07 gmt"`:                  "2026-11-20T09:41:07Z",
		`"2026-11-20 10:41:07 CET"`:                  "", // letters name a zone for those alone who know which
		`"2026-11-20 10:41:07 UTC+1"`:                "",
		`"2026-11-20T10:41:07+25:00"`:                "",
		`"Fri, 20 Nov 2026 10:41:07 +0100"`:          "2026-11-20T09:41:07Z",
		`"Fri, 20 Nov 2026 10:41:07 +0100 (CET)"`:    "2026-11-20T09:41:07Z",
		`"Fri, 6 Nov 2026 10:41 +0100"`:              "2026-11-06T09:41:00Z",
		`"Fri, 20 Nov 2026 09:41:07 UT"`:             "2026-11-20T09:41:07Z",
		`"1970-01-01T00:00:00Z"`:                     "",
		`"2099-01-01T00:00:00Z"`:                     "",
		`4070908800000`:                              "",
		`"+1795167667"`:                              "",
		`17951676671234567890`:                       "",
		`"0001-01-01T00:00:00Z"`:                     "",
		`"20.11.2026 10:41"`:                         "2026-11-20T09:41:00Z",
		`"05.06.2026 10:41"`:                         "2026-06-05T08:41:00Z",
		`"20-11-2026 10:41:07"`:                      "2026-11-20T09:41:07Z",
		`"05/06/2026 10:41"`:                         "",
		`"31.02.2026 10:41"`:                         "",
		`"/Date(1795167667123+0100)/"`:               "",
		`"Fri, 20 Nov 2026 09:41:07 GMT"`:            "2026-11-20T09:41:07Z",
		`"2026-11-20T10:41:07+01:00[Europe/Zurich]"`: "2026-11-20T09:41:07Z",
		`"2026-11-20T10:41:07[America/New_York]"`:    "", // a zone is named, and another one than ours
		`[2026,11,20,10,41,7,123000000]`:             "2026-11-20T09:41:07.123Z",
		`[2026,11,20,10,41]`:                         "2026-11-20T09:41:00Z",
		`[2026,11,20,10,41,7,1000000000]`:            "",
		`[2026,11,20,10,-41]`:                        "",
		`[2026,11,31,10,41]`:                         "",
		`[2026,11,20,10,41,7,1,1]`:                   "",
		`"2026-11-20"`:                               "",
		`"yesterday"`:                                "",
		`"."`:                                        "",
		`{}`:                                         "",

		// Dates that are spelled out.
		`"Nov 20, 2026 9:41:07 AM UTC"`:      "2026-11-20T09:41:07Z",
		`"Nov 20, 2026 10:41:07 AM"`:         "2026-11-20T09:41:07Z",
		"\"Nov 20, 2026, 10:41:07\u202fPM\"": "2026-11-20T21:41:07Z",
		`"20 jui 2026 10:41:07"`:             "", // juin or juillet

		// Objects.
		`{"$date":"2026-11-20T09:41:07Z"}`:                             "2026-11-20T09:41:07Z",
		`{"$date":1795167667123}`:                                      "2026-11-20T09:41:07.123Z",
		`{"$date":{"$numberLong":"1795167667123"}}`:                    "2026-11-20T09:41:07.123Z",
		`{"date":"2026-11-20 10:41:07","timezone":"America/New_York"}`: "",
	} {
		got, _ := instant(valueOf(raw), zurich)
		text := ""
		if !got.IsZero() {
			text = got.Format(time.RFC3339Nano)
		}
		if text != want {
			t.Errorf("%s: %q, want %q", raw, text, want)
		}
	}
}

func TestATimeWithoutZoneIsShownByClocksOfTheZone(t *testing.T) {
	for _, name := range []string{"Europe/Zurich", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "UTC", "Pacific/Apia"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() == 2026; at = at.Add(157 * time.Minute) {
			const layout = "2006-01-02T15:04:05"
			shown := at.In(zone).Format(layout)
			got, _ := instant(valueOf(quote(shown)), zone)
			if got.In(zone).Format(layout) != shown || got.Before(at) || got.Sub(at) > time.Hour {
				t.Fatalf("%s: %s read as %s, was %s", name, shown, got, at)
			}
		}
	}
}

func TestTheTimeOfThePropertyIsNotThatOfTheContactRequest(t *testing.T) {
	for body, want := range map[string]int{
		`[{"id":1,"email":"n@x","item":{"propertyReferenceId":"a#b##","createdAt":"2024-01-01T00:00:00Z"}}]`: 1,
		`[{"id":1,"node":{"propertyReferenceId":"a#b##","createdAt":"2024-01-01T00:00:00Z","email":"n@x"}}]`: 2024,
		`[{"id":1,"email":"n@x","request":{"createdAt":"2024-01-01T00:00:00Z"}}]`:                            2024,
	} {
		page, err := decodeContactRequests(t, body)
		if err != nil || page.ContactRequests[0].CreatedAt.Year() != want {
			t.Errorf("%s: %+v, %v", body, page, err)
		}
	}
}

func TestTheFormOfEachTimeIsReported(t *testing.T) {
	for raw, want := range map[string]string{
		`"2026-11-20T10:41:07+0100"`: FormOffset, `"2026-11-20T10:41:07Z[Europe/Zurich]"`: FormOffset, `"2026-11-20 10:41:07 UTC"`: FormOffset,
		`"20.11.2026 10:41"`: FormZoneless, `[2026,11,20,10,41]`: FormZoneless, `"1795167667.5"`: FormSeconds, `1795167667123`: FormMilliseconds,
		`1795167667123456`: FormMicroseconds, `"1795167667123456789"`: FormNanoseconds, `"heute"`: FormUnreadable, `{}`: FormUnreadable,
	} {
		if _, form := instant(valueOf(raw), time.UTC); form != want {
			t.Errorf("%s: %s, want %s", raw, form, want)
		}
	}
	page, err := decodeContactRequests(t, `[{"id":1,"email":"n@x"},{"id":2,"email":"n@x","createdAt":""}]`)
	if err != nil || page.ContactRequests[0].CreatedForm != FormAbsent || page.ContactRequests[1].CreatedForm != FormAbsent {
		t.Errorf("%+v, %v", page, err)
	}
}

// A clock that was never set begins in 1970, that of a test in 2000: neither makes the times of today unreadable.
func TestAClockThatIsBehindLeavesTimesReadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, raw := range []string{`"2026-11-20T09:41:07Z"`, `1795167667`, `"1999-12-31T23:00:00Z"`} {
			if got, _ := instant(valueOf(raw), time.UTC); got.IsZero() {
				t.Errorf("%s is unreadable", raw)
			}
		}
	})
}
