package daemon

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"claudeops/internal/act"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/storetest"
)

// A supervisor is killed after it has taken back what a session had of the clones: what it found is recorded once, whether that had been
// recorded before or not.
func TestWhatAnEarlierSupervisorTookBackIsRecordedOnce(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(t.Context(), storetest.With(store.Options{Path: filepath.Join(dir, "claudeops.db")}))
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	session := storetest.NewFixture(t, s).RunningSession(t, "home")
	h := &plan{Options: Options{Logger: slog.New(slog.DiscardHandler)}, ground: &ground{store: s}, commits: &act.Commits{Dir: dir}}
	lent := filepath.Join(dir, "lent", session.Key+".json")
	must(t, os.Mkdir(filepath.Dir(lent), 0o700))
	text, err := json.Marshal(act.Loan{Session: session.ID, Cycle: session.CycleID, Over: true, Events: []ops.Event{{
		SessionID: &session.ID, CycleID: &session.CycleID, Environment: "home", Level: ops.LevelInfo, Verb: ops.VerbCommitReturned,
		Reason: "The session committed 1f0c2e9; it is the branch claudeops/fix of app now.",
	}}})
	must(t, err)
	for range 2 {
		must(t, os.WriteFile(lent, text, 0o600))
		must(t, lender{h}.takeBackAll(t.Context()))
	}
	events, err := s.Journal.Events(t.Context(), store.EventFilter{SessionID: &session.ID})
	if err != nil || len(events) != 1 || events[0].Verb != ops.VerbCommitReturned || len(h.commits.Loans()) != 0 {
		t.Errorf("recorded %+v, %v; left %v", events, err, h.commits.Loans())
	}
	// Without knowing what it was lent, no session gets the clones.
	must(t, os.WriteFile(lent, []byte("half"), 0o600))
	if clones, err := (lender{h}).clonesOf(session.Key); err == nil {
		t.Errorf("it gets %+v", clones)
	}
}
