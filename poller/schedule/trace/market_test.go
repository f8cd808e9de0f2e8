package trace

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"time"
)

func near(t *testing.T, what string, got, want, off float64) {
	t.Helper()
	if math.IsNaN(got) || math.Abs(got-want) > off {
		t.Errorf("%s: %.4g, want %.4g ± %.2g", what, got, want, off)
	}
}

// fourteen counts what comes to each insertion in 14 days, the most first.
func fourteen(t *Trace) (counts []int, sum int) {
	for i := range t.Insertions {
		n := 0
		for _, at := range t.Of(i) {
			if at >= 0 && at < 14*Day {
				n++
			}
		}
		counts, sum = append(counts, n), sum+n
	}
	slices.Sort(counts)
	slices.Reverse(counts)
	return counts, sum
}

func TestAFewInsertionsGetMostAndHalfOfThemNothing(t *testing.T) {
	n := 0.0
	var perDay, none, top float64
	for seed := range uint64(2) {
		tr := New(Market{Seed: seed, Span: 14 * Day})
		counts, sum := fourteen(tr)
		perDay += float64(sum) / 14 / float64(tr.Market.Insertions)
		first := slices.Index(counts, 0)
		none += 1 - float64(first)/float64(len(counts))
		part := 0
		for _, c := range counts[:len(counts)/100] {
			part += c
		}
		top += float64(part) / float64(sum)
		n++
	}
	near(t, "a day and insertion", perDay/n, 0.25, 0.015)
	near(t, "part of the insertions without any in 14 days", none/n, 0.55, 0.05)
	near(t, "part that goes to the first hundredth", top/n, 0.27, 0.05)
}

func TestEqualSeedsMakeEqualTraces(t *testing.T) {
	m := Market{Seed: 7, Insertions: 500}
	if a, b := New(m), New(m); !reflect.DeepEqual(a, b) {
		t.Error("two traces of one market differ")
	}
	other := m
	other.Seed = 8
	if a, b := New(m), New(other); slices.Equal(a.Leads, b.Leads) {
		t.Error("another seed makes the same trace")
	}
	shared := m
	shared.Agencies = 2
	if a, b := New(m), New(shared); !slices.Equal(a.Leads, b.Leads) {
		t.Error("the same insertions under two agencies get other contact requests")
	}
}

func TestASlotIsAlwaysFull(t *testing.T) {
	tr := New(Market{Seed: 1, Insertions: 1000})
	for slot := range 1000 {
		from := time.Duration(math.MinInt64)
		for i := tr.slots[slot]; i < tr.slots[slot+1]; i++ {
			one := tr.Insertions[i]
			if i == tr.slots[slot] && one.Born > 0 || i > tr.slots[slot] && one.Born != from {
				t.Fatalf("slot %d is empty before %s", slot, one.Born)
			}
			from = one.Gone
			of := tr.Of(int(i))
			if !slices.IsSorted(of) || len(of) > 0 && (of[0] < one.Born || of[len(of)-1] >= min(one.Gone, tr.Span)) {
				t.Fatalf("contact requests of %v: %v", one, of)
			}
		}
		if from < tr.Span {
			t.Fatalf("slot %d is empty from %s on", slot, from)
		}
	}
}

func TestLivesAreAsLongAsInTheFacts(t *testing.T) {
	tr := New(Market{Seed: 1, Insertions: 300, Span: 3000 * Day})
	var lives [2][]float64
	for i := range tr.Insertions {
		if one := &tr.Insertions[i]; one.Born > 0 && one.Born < 2000*Day {
			lives[one.slot%100/50] = append(lives[one.slot%100/50], inDays(one.Gone-one.Born))
		}
	}
	for offer, median := range medianLife {
		all := lives[offer]
		slices.Sort(all)
		near(t, "median", all[len(all)/2], median, median/10)
		near(t, "84th of a hundred against the median", all[len(all)*84/100]/all[len(all)/2], math.Exp(lifeSpread), 0.25)
	}
}

// The trace must have as many contact requests as the rates say that the oracle knows.
func TestAsManyComeAsTheRatesSay(t *testing.T) {
	tr := New(Market{Seed: 1, Insertions: 10_000, Span: 14 * Day})
	want, came := 0.0, 0
	for i := range tr.Insertions {
		one := &tr.Insertions[i]
		for at := max(one.Born, 0); at < min(one.Gone, 14*Day); at += 6 * time.Hour {
			step := min(one.Gone, 14*Day, at+6*time.Hour) - at
			want += one.Rate(at+step/2) * inDays(step)
		}
		for _, at := range tr.Of(i) {
			if at >= 0 {
				came++
			}
		}
	}
	near(t, "came", float64(came)/want, 1, 0.04)
}

func TestWhatIsLiftedGetsMoreForADay(t *testing.T) {
	tr := New(Market{Seed: 1, Insertions: 20_000})
	before, after := 0, 0
	for i := range tr.Insertions {
		for _, at := range tr.Of(i) {
			switch age := inDays(at - tr.Insertions[i].Born); {
			case age >= 29 && age < 30:
				before++
			case age >= 30 && age < 31:
				after++
			}
		}
	}
	near(t, "the day after against the day before", float64(after)/float64(before), 1+3*(1-1/math.E), 0.5)
}

func TestNightsAreQuiet(t *testing.T) {
	sum := 0.0
	for h := range time.Duration(168) {
		sum += Hour(h * time.Hour)
	}
	near(t, "mean of the week", sum/168, 1, 1e-9)
	near(t, "an hour before the beginning is Sunday's last", Hour(-time.Hour/2), Hour(167*time.Hour), 0)
	tr := New(Market{Seed: 1, Span: 14 * Day})
	night, sunday, all := 0.0, 0.0, 0.0
	for _, at := range tr.Leads {
		if at < 0 {
			continue
		}
		all++
		if at%Day < 6*time.Hour {
			night++
		}
		if at%(7*Day) >= 5*Day && at%(7*Day) < 6*Day {
			sunday++
		}
	}
	near(t, "from midnight to six", night/all, 0.053, 0.012) // 0.043 but for those that others bring about
	near(t, "on Saturdays", sunday/all, 0.112, 0.012)
}

func TestTheInverseOfWhatIsExpectedIsTheAge(t *testing.T) {
	for _, age := range []float64{0, 0.01, 1, 30, 900} {
		near(t, "age", ageOf(expected(age)), age, 1e-9*(1+age))
		near(t, "slope", (expected(age+1e-4)-expected(age))/1e-4, decay(age), 1e-3)
	}
}
