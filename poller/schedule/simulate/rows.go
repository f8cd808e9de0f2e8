package main

import (
	"time"

	"doorbell/poller/schedule/trace"
)

// row is one of the table: what is simulated, and with which policies.
type row struct {
	name, about string
	market      trace.Market
	run         trace.Run
	policies    []trace.Policy
	together    bool // and once more with all insertions in one agency
	seeds       int  // at most; 0: all that are wished
}

var (
	everybody = []trace.Policy{trace.Turns, trace.Proportional, trace.Oracle, trace.CappedOracle, trace.Real}
	usual     = []trace.Policy{trace.Turns, trace.CappedOracle, trace.Real}
	alone     = []trace.Policy{trace.Turns, trace.Real}
)

// Names of rows that the goals look for.
const (
	plain   = "10k-5"
	betray  = "betray-100"
	volatil = "volatile"
	two     = "two"
	eight   = "eight"
)

var rows = []row{
	{name: plain, about: "10,000 insertions, 5 requests a second", policies: everybody},
	{name: "1k-5", about: "1,000 insertions, 5 a second", market: trace.Market{Insertions: 1000}, policies: usual},
	{name: "10k-1", about: "10,000 insertions, 1 a second", run: trace.Run{Budget: 1}, policies: usual},
	{name: "10k-20", about: "10,000 insertions, 20 a second", run: trace.Run{Budget: 20}, policies: usual, seeds: 2},
	{name: "100k-20", about: "100,000 insertions, 20 a second", market: trace.Market{Insertions: 100_000}, run: trace.Run{Budget: 20}, policies: usual, seeds: 1},

	{name: "betray-20", about: "records betray contact requests, 20 on a page", run: trace.Run{Page: 20, Records: trace.Records{Recall: 1}}, policies: alone},
	{name: betray, about: "records betray contact requests, 100 on a page", run: trace.Run{Records: trace.Records{Recall: 1}}, policies: alone},
	{name: "betray-500", about: "records betray contact requests, 500 on a page", run: trace.Run{Page: 500, Records: trace.Records{Recall: 1}}, policies: alone, seeds: 2},
	{name: "recall-0.9", about: "records betray 9 of 10 contact requests", run: trace.Run{Records: trace.Records{Recall: 0.9}}, policies: alone},
	{name: "recall-0.5", about: "records betray half of the contact requests", run: trace.Run{Records: trace.Records{Recall: 0.5}}, policies: alone},

	{name: volatil, about: "records change on every reading", run: trace.Run{Records: trace.Records{Always: true}}, policies: alone},
	{name: "edits", about: "20 edits a day of each record", run: trace.Run{Records: trace.Records{Edits: 20}}, policies: alone},
	{name: "betray-volatile", about: "records betray, and another member changes on every reading", run: trace.Run{Records: trace.Records{Recall: 1, Always: true}}, policies: alone},
	{name: "betray-edits", about: "records betray, and the same member has 20 edits a day", run: trace.Run{Records: trace.Records{Recall: 1, Edits: 20, OneMember: true}}, policies: alone},
	{name: "betray-blurred", about: "records betray, and the same member changes on every reading", run: trace.Run{Records: trace.Records{Recall: 1, Always: true, OneMember: true}}, policies: alone},

	{name: "equal", about: "all insertions have one rate", market: trace.Market{Equal: true}, policies: usual},
	{name: "sparse", about: "ten times fewer contact requests", market: trace.Market{Factor: 0.1}, policies: usual},
	{name: "busy", about: "ten times more contact requests", market: trace.Market{Factor: 10}, policies: usual},
	{name: "births", about: "records say when they were published", run: trace.Run{Births: true}, policies: usual},
	{name: two, about: "two agencies, the first 20 times hotter", market: trace.Market{Agencies: 2, Hot: 20}, policies: usual, together: true},
	{
		name: eight, about: "8 insertions, an interval of 30 s, a cap of 30 min", market: trace.Market{Insertions: 8},
		run: trace.Run{Interval: 30 * time.Second, Cap: 30 * time.Minute}, policies: []trace.Policy{trace.Real},
	},
}
