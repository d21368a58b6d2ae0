// Package storetest is the conformance suite of the store: what both databases must do in the same way.
package storetest

import (
	"slices"
	"testing"

	"claudeops/internal/store"
)

// Database opens one database, each time as another process would, with a clock fixed at Start and no uptime. The store is
// closed with the test.
type Database func(t *testing.T) *store.Store

// Run checks what the rest of the program relies on: all of it, or the suites that are named. fresh creates an empty database.
func Run(t *testing.T, fresh func(t *testing.T) Database, only ...string) {
	t.Helper()
	suites := []struct {
		name  string
		cases []testCase
	}{
		{"claim", claimCases()},
		{"fence", fenceCases()},
		{"commit", commitCases()},
		{"session", sessionCases()},
		{"cancel", cancelCases()},
		{"outbox", outboxCases()},
		{"transcript", transcriptCases()},
		{"list", listCases()},
		{"figures", figureCases()},
		{"guard", guardCases()},
		{"cooldown", cooldownCases()},
		{"redeployment", redeploymentCases()},
		{"action", actionCases()},
		{"ladder", ladderCases()},
		{"budget", budgetCases()},
		{"await", awaitCases()},
		{"approval", approvalCases()},
		{"denial", denialCases()},
		{"trust", trustCases()},
		{"reflex", reflexCases()},
		{"update", updateCases()},
		{"incident", incidentCases()},
		{"probation", probationCases()},
		{"answer", answerCases()},
		{"reply", replyCases()},
		{"reminder", reminderCases()},
		{"dry run", dryRunCases()},
		{"memory", memoryCases()},
		{"watch", watchCases()},
		{"dispute", disputeCases()},
		{"heartbeat", heartbeatCases()},
		{"changes", changeCases()},
		{"cost", costCases()},
		{"health", healthCases()},
		{"report", reportCases()},
		{"totals", totalsCases()},
		{"access", accessCases()},
		{"hosts at once", parallelCases()},
		{"host", hostCases()},
		{"step", stepCases()},
	}
	for _, suite := range suites {
		if len(only) > 0 && !slices.Contains(only, suite.name) {
			continue
		}
		t.Run(suite.name, func(t *testing.T) {
			for _, c := range suite.cases {
				t.Run(c.name, func(t *testing.T) {
					database := fresh(t)
					f := NewFixture(t, database(t))
					f.database = database
					c.run(t, f)
				})
			}
		})
	}
}

type testCase struct {
	name string
	run  func(t *testing.T, f *Fixture)
}
