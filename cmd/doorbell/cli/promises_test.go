package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// promises says which tests prove what doorbell promises: for each sentence those that fail when it is broken. The numbers are
// the promises themselves; what follows them is how they are kept, by subject. A test that is replaced by a better one is
// replaced here in the same commit; a promise without a test is none.
var promises = []struct {
	says  string
	tests map[string]string // by room
}{
	{"1. No lead is lost: what a good answer shows and is younger than the watch reaches the stream, through crash, outage and restart at any instant.", map[string]string{
		"cmd/doorbell/cli": `TestWithNATSAwayTheWatchGoesOnAndNothingIsLost
			TestALostStoreLosesNoContactRequestWhileTheStreamIsThere TestARestoredBackupGoesOnWhateverBecameOfTheStream`,
		"cmd/doorbell/torture": `TestAnyScheduleOfFaultsLosesAndDoublesNothing TestKillingTheDaemonAtRandomLosesAndDoublesNothing
			TestAFaultAtAnyCallThatChangesAFileLosesAndDoublesNothing
			TestAPowerFailureOfBothStoresLosesAndDoublesNothing TestAFullDiskLosesAndDoublesNothing
			TestWhateverHappensToAnExternalServerNothingIsLostOrDoubled`,
		"poller": "TestAnyInterleavingEndsWithExactlyTheEventsOfTheModel TestNoFailureOrKillInACatchUpLosesALead TestStoriesOfWalks",
		"store":  "TestAKillAtAnyInstantLeavesASoundStoreWithAllThatWasCommitted TestAnEventAndItsStateAreCommittedTogetherOrNotAtAll",
	}},
	{"2. No event twice: the stream holds each id once, for as long as it keeps the event, and after restores.", map[string]string{
		"cmd/doorbell/cli":     "TestARestoreAsThePageSaysGoesOnWhereTheBackupWas TestAMachineThatIsSetBackLosesAndDoublesNothing",
		"cmd/doorbell/torture": "TestAnyScheduleOfFaultsLosesAndDoublesNothing TestKillingTheDaemonAtRandomLosesAndDoublesNothing",
		"events/relay":         "TestWhateverHappensTheStreamHoldsEachEventOnce TestWhereverTheConnectionBreaksEveryEventArrivesOnce TestAnEventWhoseAcknowledgementIsLostIsStoredOnce",
	}},
	{"3. No false alarm: no failed, partial, empty or odd answer makes an insertion disappear or a contact request new.", map[string]string{
		"poller":               "TestEveryBadAnswerChangesNothingAndIsSaid TestStoriesOfWalks TestStoriesOfAlarms TestAnyInterleavingEndsWithExactlyTheEventsOfTheModel",
		"poller/listings":      "TestABodyCutAnywhereIsNeverAPage",
		"cmd/doorbell/torture": "TestAnyScheduleOfFaultsLosesAndDoublesNothing",
	}},
	{"4. Silence is watched: when we cannot see, an event says so, and with NATS away readiness, metrics and log do; a dead doorbell shows by its missing heartbeat.", map[string]string{
		"poller":               "TestStoriesOfAlarms TestWhatIsMissedOfAFloodIsAllThatIsMissedAndToldOnce",
		"cmd/doorbell/cli":     "TestADaemonWithoutItsNATSLivesAndIsNotReady TestGuestsReadAndCannotDisturb",
		"cmd/doorbell/torture": "TestALongOutageFillsNoLogAndItsEndsAreInIt",
		"cmd/doorbell/daemon":  "TestADaemonWhoseLoopsHangIsNotAlive TestTheHeartbeatSaysTheStateThatTheStatusSays",
	}},
	{"5. A good guest: one number bounds what is sent to the API; a 403 stops us; Retry-After is obeyed.", map[string]string{
		"poller":               "TestTheBudgetIsNeverExceeded TestStoriesOfAccess",
		"cmd/doorbell/cli":     "TestAHaltOutlastsEveryRestartUntilAPersonEndsIt",
		"cmd/doorbell/torture": "TestAnyScheduleOfFaultsLosesAndDoublesNothing",
	}},
	{"6. Leads are people: their data is in no log, metric, subject, header or error.", map[string]string{
		"cmd/doorbell/cli":     "TestABusyDaemonTellsItsFiguresAndNobodyElses",
		"cmd/doorbell/torture": "TestKillingTheDaemonAtRandomLosesAndDoublesNothing TestAnyScheduleOfFaultsLosesAndDoublesNothing",
		"poller":               "TestStoriesOfInsertions",
		"poller/listings":      "TestNoErrorQuotesABodyOrTheKey",
		"events":               "TestHeadersAreSmallPrintableASCII TestAPayloadOfAnotherFormIsAnErrorThatQuotesNothing",
	}},

	{"Of a person, events say what is configured, and the setting changes nothing else.", map[string]string{
		"poller":       "TestAnAgencySaysOfPeopleWhatIsConfiguredWhateverTheShape TestAnotherSettingOfPeopleIsNoEventAndCountsFromTheNextOn",
		"poller/watch": "TestWhatIsSaidOfPeopleChangesNothingThatIsRemembered",
	}},
	{"What was there before the watch is not announced, and what is made meanwhile is.", map[string]string{
		"poller":       "TestWhateverDateHeadersSayLeadsOfTheFirstSweepAreAnnouncedAndOldOnesAreOld TestStoriesOfInsertions",
		"poller/watch": "TestWhatIsOldAndWhatIsLive",
	}},
	{"A contact request is known by id and by fingerprint: an id that changes, vanishes or is none makes nothing new and swallows nothing.", map[string]string{
		"poller":       "TestWhereIdentityItselfChangesNothingIsAnnounced TestAnIdThatWasGivenAgainIsAnotherLead TestAScoreOfAnySpellingIsNoNews",
		"poller/watch": "TestTheIdIsTheFirstCandidateThatIsDistinct TestAnIdCountsOnlyForOnePerson TestADoubleClickWithTwoIdsStaysTwo",
	}},
	{"An insertion has disappeared after two complete walks; a mass change is held.", map[string]string{
		"poller": "TestStoriesOfWalks",
	}},
	{"Every change of an insertion is exactly its event.", map[string]string{
		"poller":           "TestStoriesOfInsertions TestEveryScenarioComesOutAsItsStorySays",
		"cmd/doorbell/cli": "TestWhatHappensAtTheAPIGivesExactlyItsEvent",
	}},
	{"An answer that brings nothing new writes nothing.", map[string]string{
		"poller": "TestStoriesOfWalks",
	}},
	{"Records are found by what they look like; another form is one drift and no change of each.", map[string]string{
		"poller":          "TestStoriesOfWalks TestStoriesOfInsertions TestADriftQuotesNothingAndIsBounded TestADefectIsThatOfItsRecordAlone",
		"poller/listings": "TestEveryAnswerMeansWhatItShould TestEveryAnswerMeansWhatItShould",
	}},
	{"Totals only refute, short pages end nothing, and a walk that misses something is not complete.", map[string]string{
		"poller/listings": "TestTotalsOnlyRefute TestOneFailingPageNeverMakesACompleteWalkThatMissesSomething TestWalksOverEveryKindOfPaging TestWhatWasThereThroughoutIsFoundOrTheWalkSaysThatPagesMoved",
	}},
	{"A window closes by what was known before, or other orders and larger windows are asked for, or a gap is told with its numbers.", map[string]string{
		"poller": "TestNoServiceLosesALeadInSilenceOrIsAskedInVain TestAServerThatIgnoresTheOrderAndCapsHidesNoLeadInSilence TestAReplicaThatIsBehindClosesNoWindow TestWhatIsMissedOfAFloodIsAllThatIsMissedAndToldOnce",
	}},
	{"A refusal halts what it is about, in one transaction with its event, and no restart asks again.", map[string]string{
		"poller": "TestStoriesOfAccess",
	}},
	{"A halt ends when the configured key changes, or by a person.", map[string]string{
		"poller": "TestStoriesOfAccess",
		"cmd/doorbell/cli": `TestAChangedKeyFileIsPickedUpWithinHalfAMinuteAndABadOneChangesNothing
			TestAHaltEndsWithAnotherKeyAtTheNextStart`,
	}},
	{"A key never prints itself and follows no redirect.", map[string]string{
		"poller/listings":  "TestAKeyCannotPrintItself TestNoRedirectIsEverFollowed",
		"cmd/doorbell/cli": "TestASecretNeverPrintsItself",
	}},
	{"What fails alone backs off alone; what fails as a whole backs off as a whole, and a key that is to wait waits over a restart.", map[string]string{
		"poller": "TestStoriesOfWalks TestStoriesOfAccess",
	}},
	{"A commit that fails, as on a full disk, ends the process, and no start asks before it could write; a full store stops polls.", map[string]string{
		"poller": `TestAFullDiskEndsThePollerAndNoOtherAsksBeforeThereIsSpace
			TestAStoreThatHoldsAllThatItMayStopsTheAskingAndLosesNothing`,
		"cmd/doorbell/torture": "TestAFullDiskOfTheStreamAloneStopsNoPolling",
		"cmd/doorbell/daemon":  "TestACommitOfUnknownOutcomeEndsTheProcessAlsoBeforeAnyoneIsWatched TestAFailedCommitEndsTheDaemonWithTheCodeOfTheDisk",
	}},
	{"A store that is damaged, foreign or locked is refused with a sentence and left alone.", map[string]string{
		"store": "TestAFlippedByteIsHarmlessOrDamage TestAfterDamageNothingIsReadOrWritten TestASecondProcessIsRefusedInTime TestAStoreIsTakenForAnAPIAtANewAddressOnlyOnRequest",
		"cmd/doorbell/cli": `TestADamagedStoreIsToldApartAndLeftAlone TestAStoreThatIsDamagedWhileItIsReadEndsTheDaemon
			TestRunRefusesAStoreThatIsNotItsOwn TestASecondDaemonOnADataDirectoryIsRefusedAndTouchesNothing`,
	}},
	{"The stream takes each event once: what it lost is offered again under its id, and what was deleted or has expired stays gone.", map[string]string{
		"events/relay": `TestWhateverHappensTheStreamHoldsEachEventOnce TestALostTailIsOfferedAgain TestADeletedStreamIsFilledFromTheLog
			TestWhatWasPurgedOrDeletedStaysSo TestIDsAreKnownForAsLongAsTheStreamKeepsMessages TestWhatIsAboutToLeaveTheWindowIsNotOfferedAgain`,
		"cmd/doorbell/cli": "TestADamagedStreamIsBuiltAnewFromTheEventLog",
	}},
	{"Foreign messages in the stream disturb nothing; only the relay can publish there.", map[string]string{
		"events/relay":     "TestAGuestCannotPublishWhereTheRelayDoes",
		"events/natsd":     "TestAGuestCannotChangeTheStream TestAnAddressForStrangersNeedsCredentials",
		"cmd/doorbell/cli": "TestAnExternalStreamIsUsedAsItIsAndStrayMessagesAreSteppedOver",
	}},
	{"An event log keeps what the stream has not taken, and remembers what was seen longer than its events.", map[string]string{
		"store": "TestOnlyWhatIsOldAndAcknowledgedIsTrimmed TestWhatWasSeenOutlivesItsEvents",
	}},
	{"The bytes of events are what they were.", map[string]string{
		"events": "TestTheBytesOfEveryTypeNeverChange TestIDsNeverChange",
	}},
	{"The embedded server acknowledges what it has written, and is started anew when it wedges.", map[string]string{
		"events/natsd": "TestTheServerWritesBeforeItAcknowledges TestAServerThatMetAFullDiskIsRestartedWhenThereIsSpaceAndNotBefore TestAStreamThatTheServerCannotRecoverIsMovedAside",
		"events/relay": "TestAServerThatIsKilledAnywhereGetsEveryEventOnce",
	}},
	{"A NATS that hangs holds up neither the polling nor the end.", map[string]string{
		"cmd/doorbell/cli": `TestAnEmbeddedServerThatReadsNothingAnyMoreDoesNotHoldUpThePollingNorTheEnd
			TestADaemonWhoseNATSHangsEndsInTime TestAConnectionThatCannotBeClosedHoldsNothingUp`,
	}},
	{"Polls go where something is likely, none later than the cap and none sooner than the interval; walks take a third while polls wait.", map[string]string{
		"poller":          "TestNoInsertionWaitsLongerThanIsAllowed TestWalksTakeAThirdOfTheRequestsWhilePollsWait",
		"poller/schedule": "TestNoInsertionWaitsLongerThanTheCap TestNoInsertionIsPolledBeforeItsIntervalHasPassed TestWhatIsNotNeededIsNotSpent TestAFloodOfNewInsertionsKeepsTheCap TestTwoAgenciesAreTreatedAlike TestTheMarketIsServedTwiceAsFastAsInTurns",
	}},
	{"A forwarder loses nothing, doubles at most what was under way in a crash, and neither floods nor skips on a rebuilt stream.", map[string]string{
		"events/forward": "TestKilledAtEveryStepNoLeadIsLostAndAtMostOneIsDoubled TestAnyScheduleOfCrashesLosesNothing TestARebuiltStreamNeitherFloodsNorSkips TestADeadLetterIsTheMessageWithTheReason TestRetryAfterIsObeyedByAllLanesOfTheDestination",
		"cmd/doorbell/cli": `TestKillingTheDaemonWhileReceiversAreDownLosesNothing
			TestANewContactRequestArrivesAtEachReceiverOnce`,
	}},
	{"A key that is refused for two hundred agencies is one alert and one digest.", map[string]string{
		"events/forward": "TestWhatWaitedIsSentAsDigests",
	}},
}

// fromOutside are the rooms whose promises are proven through what the room exports, so that everything within it may be built
// anew under the same tests.
var fromOutside = []string{"poller", "store"}

func TestEveryPromiseHasItsTests(t *testing.T) {
	found := map[string][]string{} // by room
	for _, p := range promises {
		for room, names := range p.tests {
			if found[room] == nil {
				found[room] = testsOf(t, room)
			}
			for _, name := range strings.Fields(names) {
				if !slices.Contains(found[room], name) {
					t.Errorf("%s\nis said to be proven by %s of %s, which is not there or not from outside", p.says, name, room)
				}
			}
		}
	}
}

// testsOf are the names of a room's tests. Of rooms that are tested from outside only those that use neither what the room does
// not export nor what it exports to tests alone.
func testsOf(t *testing.T, room string) (tests []string) {
	t.Helper()
	files, err := filepath.Glob(path.Join(top, room, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no tests: %v", room, err)
	}
	outside := slices.Contains(fromOutside, room)
	var all []*ast.FuncDecl
	inner := map[string]bool{}
	for _, name := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range tree.Decls {
			switch f, ok := d.(*ast.FuncDecl); {
			case !ok:
			case !outside || strings.HasSuffix(tree.Name.Name, "_test"):
				all = append(all, f)
			case path.Base(name) == "export_test.go":
				inner[f.Name.Name] = true
			}
		}
	}
	for more := outside; more; { // who calls one that looks inside does so, too
		more = false
		for _, f := range all {
			if !inner[f.Name.Name] && names(f, inner) {
				inner[f.Name.Name], more = true, true
			}
		}
	}
	for _, f := range all {
		if f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && !inner[f.Name.Name] {
			tests = append(tests, f.Name.Name)
		}
	}
	return tests
}

// names says whether a function names one of these.
func names(f *ast.FuncDecl, these map[string]bool) (does bool) {
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if i, ok := n.(*ast.Ident); ok && these[i.Name] {
			does = true
		}
		return !does
	})
	return does
}
