package sandbox

import (
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// lived lets a market live for so long, step by step.
func lived(o MarketOptions, d time.Duration) (*Model, *Market) {
	c := newClock()
	m := NewModel(Options{Now: c.now, Seed: o.Seed})
	k := NewMarket(m, o)
	k.Seed()
	end := c.t.Add(d)
	for next, ok := k.Next(); ok && next.Before(end); next, ok = k.Next() {
		c.t = next
		k.Step()
	}
	c.t = end
	return m, k
}

// near fails unless got is want, give or take.
func near(t *testing.T, name string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance {
		t.Errorf("%s: %.3f, want %.3f ± %.3f", name, got, want, tolerance)
	}
}

func byReference(truth Truth) map[string]InsertionTruth {
	of := map[string]InsertionTruth{}
	for _, i := range truth.Insertions {
		of[i.Reference] = i
	}
	return of
}

// tidy has no hot rentals, whose few would decide every mean.
func tidy() *Numbers {
	n := Believable()
	n.Hot = 0
	return &n
}

func TestTheMarketTurnsOverAsMuchAsARealOne(t *testing.T) {
	t.Parallel()
	const weeks = 8 * 7
	m, _ := lived(MarketOptions{Seed: 1, Numbers: tidy(), Agencies: []AgencyProfile{{"A100", 450, 1}}}, weeks*day)
	truth := m.Truth()
	begin := truth.At.Add(-weeks * day)
	var appeared, disappeared, early, listed, returned float64
	for _, i := range truth.Insertions {
		for n, v := range i.Visible {
			if v.From.After(begin) && n == 0 {
				appeared++
			} else if n > 0 {
				returned++
			}
			if !v.Until.IsZero() {
				disappeared++
				if v.Until.Before(begin.Add(7 * day)) {
					early++
				}
			}
		}
		if i.VisibleAt(truth.At) {
			listed++
		}
	}
	near(t, "appear a day, of 150", appeared/weeks/3, 5.4, 0.6)
	near(t, "disappear a day, of 150", disappeared/weeks/3, 5.4, 0.6)
	near(t, "disappear a day, of 150, in the first week", early/7/3, 5.4, 1.2)
	near(t, "stock", listed, 450, 60)
	near(t, "returned", returned/disappeared, 0.01, 0.012) // 3 %, of which a good third within the time
	if returned == 0 {
		t.Error("nothing ever returned")
	}
	requests := 0.0
	for _, c := range truth.ContactRequests {
		if c.CreatedAt.After(begin) {
			requests++
		}
	}
	near(t, "contact requests a day, of 150", requests/weeks/3, 64, 8)
}

func TestContactRequestsComeInTheRhythmOfPeople(t *testing.T) {
	t.Parallel()
	m, _ := lived(MarketOptions{Seed: 2, Numbers: tidy(), Agencies: []AgencyProfile{{"A100", 600, 1}}}, 6*7*day)
	truth := m.Truth()
	begin := truth.At.Add(-6 * 7 * day)
	var hours [24]float64
	var weekdays [7]float64
	total, night, late := 0.0, 0.0, 0.0
	for _, c := range truth.ContactRequests {
		if !c.CreatedAt.After(begin) {
			continue
		}
		local := c.CreatedAt.In(Zurich)
		hours[local.Hour()]++
		weekdays[(int(local.Weekday())+6)%7]++
		if h := local.Hour(); h < 8 || h >= 18 {
			night++
		}
		if lag := c.VisibleFrom.Sub(c.CreatedAt); lag > 0 {
			late++
			if lag < 90*time.Second || lag > 600*time.Second {
				t.Errorf("late by %v", lag)
			}
		}
		total++
	}
	n := Believable()
	for h, got := range hours {
		near(t, "hour "+time.Duration(h*int(time.Hour)).String(), 100*got/total, n.Hours[h], 0.9)
	}
	for d, got := range weekdays {
		near(t, "weekday "+time.Weekday((d+1)%7).String(), 100*got/total, n.Weekdays[d], 1.5)
	}
	near(t, "out of office hours", 100*night/total, 41, 5)
	near(t, "late", late/total, 0.01, 0.005)
}

func TestInterestDecays(t *testing.T) {
	t.Parallel()
	m, _ := lived(MarketOptions{Seed: 3, Numbers: tidy(), Agencies: []AgencyProfile{{"A100", 600, 1}}}, 10*7*day)
	truth := m.Truth()
	begin := truth.At.Add(-10 * 7 * day)
	of := byReference(truth)
	var counts []float64
	var after [3]float64
	total := 0.0
	per := map[string]float64{}
	for _, c := range truth.ContactRequests {
		i := of[c.Reference]
		if len(i.Visible) > 1 || !i.Visible[0].From.After(begin) || i.Visible[0].Until.IsZero() {
			continue
		}
		age := c.CreatedAt.Sub(i.Visible[0].From)
		for n, d := range []time.Duration{day, 3 * day, 7 * day} {
			if age < d {
				after[n]++
			}
		}
		total++
		per[c.Reference]++
	}
	for _, i := range truth.Insertions {
		if len(i.Visible) == 1 && i.Visible[0].From.After(begin) && !i.Visible[0].Until.IsZero() {
			counts = append(counts, per[i.Reference])
		}
	}
	slices.Sort(counts)
	near(t, "within a day", after[0]/total, 0.24, 0.04) // 22 % and what short lives add
	near(t, "within three days", after[1]/total, 0.55, 0.05)
	near(t, "within a week", after[2]/total, 0.84, 0.05)
	near(t, "mean of a rental", total/float64(len(counts)), 12, 1.5)
	near(t, "median of a rental", counts[len(counts)/2], 6, 1)
	near(t, "95 %", counts[len(counts)*95/100], 42, 9)
}

func TestAFewRentalsAreHot(t *testing.T) {
	t.Parallel()
	n := Believable()
	n.RentRequests.Sigma = 0.3 // nobody else comes near
	m, k := lived(MarketOptions{Seed: 4, Numbers: &n, Agencies: []AgencyProfile{{"A100", 600, 1}}}, 6*7*day)
	truth := m.Truth()
	begin := truth.At.Add(-6 * 7 * day)
	near(t, "hot", float64(k.hot)/float64(len(truth.Insertions)), 0.01, 0.004)
	of := byReference(truth)
	perDay, per := map[string]int{}, map[string]int{}
	for _, c := range truth.ContactRequests {
		i := of[c.Reference]
		if !i.Visible[0].From.After(begin) || len(i.Visible) > 1 {
			continue
		}
		per[c.Reference]++
		if c.CreatedAt.Sub(i.Visible[0].From) < day {
			perDay[c.Reference]++
		}
	}
	found := 0
	for reference, n := range per {
		if n > 250 {
			found++
			if 2*perDay[reference] < n {
				t.Errorf("only %d of %d within a day", perDay[reference], n)
			}
		}
	}
	if found == 0 {
		t.Error("none got more than 250")
	}
}

func TestRecordsAreAsVariedAndUntidyAsRealOnes(t *testing.T) {
	t.Parallel()
	m, _ := lived(MarketOptions{Seed: 5, Agencies: []AgencyProfile{{"A100", 1800, 0.8}}}, time.Second)
	shares := map[string]float64{}
	var rents []float64
	coordinates := map[Geo]int{}
	truth := m.Truth()
	for _, i := range truth.Insertions {
		r := i.Versions[0].Record
		shares[r.OfferType]++
		shares[r.RankType]++
		shares["rooms "+[...]string{"", "1", "2", "3", "4", "5+", "5+", "5+"}[int(r.Characteristics.NumberOfRooms)]]++
		if r.Address.Street == "" {
			shares["no street"]++
		}
		for name, text := range r.Extra {
			shares[name]++
			if name == "lister" && string(text) == "{}" {
				shares["empty lister"]++
			}
		}
		if r.OfferType == "RENT" && r.Prices.Rent.Net == 0 && r.Prices.Rent.Gross > 0 {
			shares["only gross"]++
		}
		if r.Prices.Rent.Net > 0 && int(r.Characteristics.NumberOfRooms) == 3 && r.Address.Region == "BE" {
			rents = append(rents, float64(r.Prices.Rent.Net))
		}
		coordinates[r.Address.Geo]++
	}
	for name, want := range map[string]float64{
		"RENT": 0.8, "BUY": 0.2, "TOP": 0.08, "PREMIUM": 0.17, "STANDARD": 0.75, "no street": 0.104, "only gross": 0.12,
		"rooms 1": 0.09, "rooms 2": 0.22, "rooms 3": 0.34, "rooms 4": 0.26, "rooms 5+": 0.09, "urls": 0.6, "lister": 1, "empty lister": 0.2,
	} {
		near(t, name, shares[name]/float64(len(truth.Insertions)), want, 0.03)
	}
	sum := 0.0
	for _, r := range rents {
		sum += r
	}
	near(t, "asking rent of three rooms in Bern", sum/float64(len(rents)), 1367*1.275, 60)
	if shares["prices"] == 0 || len(coordinates) == len(truth.Insertions) {
		t.Error("no empty price, or no shared coordinates")
	}
}

func TestPeopleAreInventedAsIncompleteAsRealOnes(t *testing.T) {
	t.Parallel()
	m, _ := lived(MarketOptions{Seed: 6, Numbers: tidy(), Agencies: []AgencyProfile{{"A100", 900, 1}}}, 14*day)
	digits := regexp.MustCompile(`^(\+41|0041|0)(79|76|44)000\d{4}$`)
	mail := regexp.MustCompile(`^[a-z.0-9-]+-zq7@example\.(org|com|net)$`)
	shares, seen := map[string]float64{}, map[string]string{}
	var odd [12]int
	truth := m.Truth()
	total := float64(len(truth.ContactRequests))
	mean, square := 0.0, 0.0
	for _, c := range truth.ContactRequests {
		r := c.Versions[0].Record
		if !strings.HasSuffix(r.LastName, Marker) || r.Message != "" && !strings.Contains(r.Message, r.LastName) ||
			r.Email != "" && !mail.MatchString(r.Email) ||
			r.Phone != "" && !digits.MatchString(strings.NewReplacer(" ", "", ".", "", "-", "", "/", "").Replace(r.Phone)) {
			t.Fatalf("%+v", r)
		}
		for name, is := range map[string]bool{
			"email": r.Email != "", "first name": r.FirstName != "", "salutation": r.Salutation != "", "phone": r.Phone != "",
			"viewing": len(r.ViewingTimes) > 0, "spam": strings.Contains(r.Message, "spam.example"),
			"template": slices.ContainsFunc([]string{"interessiere mich", "bien m'intéresse", "sono interessato", "I am interested"}, func(s string) bool { return strings.Contains(r.Message, s) }),
			r.Language: true,
		} {
			if is {
				shares[name]++
			}
		}
		if other, again := seen[r.Email]; again && r.Email != "" && strings.ContainsAny(r.Email, "0123456789") && other != c.Reference {
			shares["same person"]++
		}
		seen[r.Email] = c.Reference
		for n, form := range oddMessages {
			if head, _, _ := strings.Cut(form, "NAME"); r.Message == "" && form == "" || form != "" && strings.HasPrefix(r.Message, head) {
				odd[n]++
			}
		}
		mean += r.Score / total
		square += r.Score * r.Score / total
	}
	for name, want := range map[string]float64{
		"email": 0.99, "first name": 0.96, "salutation": 0.85, "phone": 0.78, "viewing": 0.15, "spam": 0.01, "template": 0.33,
		"de": 0.6, "fr": 0.22, "en": 0.11, "it": 0.05, "pt": 0.02,
	} {
		near(t, name, shares[name]/total, want, max(0.02, want/8))
	}
	for n, count := range odd {
		if count == 0 {
			t.Errorf("nobody wrote %.20q", oddMessages[n])
		}
	}
	near(t, "mean score", mean, 50, 1.5)
	near(t, "deviation of the score", math.Sqrt(square-mean*mean), 50/math.Sqrt(5.4), 1) // of Beta(2.2, 2.2)
	if shares["same person"]/total < 0.05 {
		t.Errorf("only %.3f wrote twice", shares["same person"]/total)
	}
}

func TestTheMarketEditsAndRescores(t *testing.T) {
	t.Parallel()
	m, _ := lived(MarketOptions{Seed: 7, Numbers: tidy(), Agencies: []AgencyProfile{{"A100", 300, 1}}}, 30*day)
	ranks, prices, rescored, versions := 0.0, 0.0, 0.0, 0.0
	truth := m.Truth()
	for _, i := range truth.Insertions {
		for n := 1; n < len(i.Versions); n++ {
			if i.Versions[n].Record.RankType != i.Versions[n-1].Record.RankType {
				ranks++
			}
			if i.Versions[n].Record.Prices != i.Versions[n-1].Record.Prices {
				prices++
			}
		}
	}
	for _, c := range truth.ContactRequests {
		versions++
		rescored += float64(len(c.Versions) - 1)
	}
	near(t, "ranks changed a day", ranks/300/30, 0.01, 0.004)
	near(t, "prices changed a day", prices/30/300, 0.12/28, 0.002)
	near(t, "scores changed", rescored/versions, 0.5, 0.3) // 5 % a day, as long as it is listed
}

func TestTheSameSeedMakesTheSameMarket(t *testing.T) {
	t.Parallel()
	made := func(seed uint64) string {
		m, _ := lived(MarketOptions{Seed: seed}, 5*day)
		text, err := json.Marshal(m.Truth())
		must(t, err)
		return string(text)
	}
	one := made(1)
	if again := made(1); again != one {
		t.Error("two markets of one seed differ")
	}
	if one == made(2) {
		t.Error("two seeds make the same market")
	}
}

func TestAgenciesAreOfVerySizes(t *testing.T) {
	t.Parallel()
	var sizes []float64
	k := NewMarket(NewModel(Options{}), MarketOptions{Seed: 8, Agencies: make([]AgencyProfile, 4000)})
	for _, a := range k.agencies {
		sizes = append(sizes, float64(a.profile.Insertions))
	}
	slices.Sort(sizes)
	near(t, "median", sizes[2000], 12, 1.5)
	near(t, "90 %", sizes[3600], 82, 12)
	near(t, "99 %", sizes[3960], 390, 110)
	if most := sizes[3999]; most > 2000 {
		t.Errorf("the largest has %v", most)
	}
}

func TestADayCanPassInAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewModel(Options{})
		k := NewMarket(m, MarketOptions{Seed: 9, Speed: 1440, Agencies: []AgencyProfile{{"A100", 300, 1}}})
		k.Seed()
		before := len(m.Truth().ContactRequests)
		ctx, cancel := contextFor(t, time.Minute)
		defer cancel()
		k.Run(ctx)
		truth := m.Truth()
		near(t, "contact requests in a minute", float64(len(truth.ContactRequests)-before), 150, 110)
		for _, c := range truth.ContactRequests {
			if c.CreatedAt.After(truth.At) {
				t.Errorf("made at %v, now it is %v", c.CreatedAt, truth.At)
			}
		}
		if len(truth.Insertions) == 300 {
			t.Error("nothing new in a day")
		}
	})
}
