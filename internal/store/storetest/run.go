// Package storetest holds what every database must do alike to carry the journal.
package storetest

import (
	"testing"

	"claudeops/internal/store"
)

// Run proves that a store works as the rest of the program relies on. open returns a new, empty store whose clock stands at
// Start and that knows no uptime; it closes the store with the test.
func Run(t *testing.T, open func(t *testing.T) *store.Store) {
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
		{"halves", halvesCases()},
		{"ladder", ladderCases()},
		{"budget", budgetCases()},
		{"await", awaitCases()},
		{"approval", approvalCases()},
		{"incident", incidentCases()},
		{"answer", answerCases()},
		{"reminder", reminderCases()},
		{"memory", memoryCases()},
		{"watch", watchCases()},
		{"cost", costCases()},
		{"health", healthCases()},
	}
	for _, suite := range suites {
		t.Run(suite.name, func(t *testing.T) {
			for _, c := range suite.cases {
				t.Run(c.name, func(t *testing.T) { c.run(t, NewFixture(t, open(t))) })
			}
		})
	}
}

type testCase struct {
	name string
	run  func(t *testing.T, f *Fixture)
}
