//go:build failpoint

package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/storetest"
)

// journalWrites are the writes of one small cycle, in order, each one transaction.
func journalWrites(t *testing.T, s *store.Store) []func() {
	f := &storetest.Fixture{Store: s, At: storetest.Start}
	var cycle ops.CycleID
	var session ops.Session
	must := func(err error) {
		t.Helper()
		must(t, err)
	}
	return []func(){
		func() { must(s.MarkOpen(t.Context())) },
		func() { f.Owner = storetest.NewFixture(t, s).Owner },
		func() { cycle = f.Submit(t, "home") },
		func() {
			_, err := s.Journal.Claim(t.Context(), f.Owner, cycle, storetest.Policy(), storetest.Start)
			must(err)
		},
		func() { session = *f.Queue(t, cycle, nil, 1).Journal.Last() },
		func() { must(f.Start(t, session.ID, "planned", storetest.Start)) },
		func() { must(s.Journal.NoteProcess(t.Context(), f.Owner, session.ID, 4711, "99")) },
		func() {
			must(s.Journal.AppendTranscript(t.Context(), f.Owner, session.ID, []ops.Line{
				{Seq: 1, At: storetest.Start, Text: "a"},
				{Seq: 2, At: storetest.Start},
			}))
		},
		func() { f.Commit(t, f.Escalation(session, 1)) },
		func() {
			due, err := s.People.DueNotices(t.Context(), storetest.Start.AddDate(1, 0, 0), 1)
			must(err)
			due[0].Status = ops.NoticeSent
			must(s.People.SettleNotice(t.Context(), due[0], &ops.Event{Level: ops.LevelInfo, Verb: ops.VerbNoticeRetried}))
		},
		func() {
			_, err := s.Journal.RequestCancel(t.Context(), cycle, "stop", storetest.Start)
			must(err)
		},
		func() {
			f.Commit(t, ops.Transition{Cycle: cycle, At: storetest.Start, Step: ops.Step{
				Kind: ops.StepAwait, Approval: &ops.Approval{Tier: ops.Tier2, Handler: "tier2"},
				Incident: &ops.IncidentReport{Title: "no answer", Level: ops.LevelCritical, Services: []string{"web"}, Waits: true},
			}})
		},
		func() {
			_, err := s.People.Answer(t.Context(), 1, ops.ApprovalApproved, "alice", "", storetest.Start)
			must(err)
		},
		func() {
			_, err := s.People.ResolveIncident(t.Context(), 1, "alice", "new disk", storetest.Start)
			must(err)
		},
		func() {
			_, err := s.Journal.Claim(t.Context(), f.Owner, cycle, storetest.Policy(), storetest.Start)
			must(err)
		},
		func() { must(s.Journal.Release(t.Context(), f.Owner, cycle)) },
	}
}

// everything is all that the writes above leave, without what is random.
func everything(t *testing.T, path string) string {
	t.Helper()
	s := openFile(t, path)
	defer closeStore(t, s)
	must(t, s.QuickCheck(t.Context()))
	out := map[string]any{"unclean": s.UncleanStop()}
	cycles, err := s.Reports.Cycles(t.Context(), store.CycleFilter{})
	must(t, err)
	for i := range cycles {
		for j := range cycles[i].Sessions {
			session := &cycles[i].Sessions[j]
			session.Key = ""
			lines, err := s.Journal.Transcript(t.Context(), session.ID, 0, 0)
			must(t, err)
			out[fmt.Sprint("lines ", session.ID)] = lines
		}
	}
	out["cycles"] = cycles
	if out["events"], err = s.Journal.Events(t.Context(), store.EventFilter{}); err != nil {
		t.Fatal(err)
	}
	if out["notices"], err = s.People.NoticeList(t.Context(), store.NoticeFilter{}); err != nil {
		t.Fatal(err)
	}
	if out["decisions"], err = s.Journal.Decisions(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if out["approvals"], err = s.People.Approvals(t.Context(), store.ApprovalFilter{}); err != nil {
		t.Fatal(err)
	}
	if out["incidents"], err = s.People.Incidents(t.Context(), store.IncidentFilter{}); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(out)
	must(t, err)
	return string(b)
}

// Killed just before a commit, the write never was; killed just after it, it is all there.
func TestKillAtEveryWriteLeavesWholeWritesOnly(t *testing.T) {
	if path := os.Getenv("CRASH_TEST_DB"); path != "" { //nolint:forbidigo // tells the child process what to do
		for _, write := range journalWrites(t, openFile(t, path)) {
			write()
		}
		return
	}
	writes := len(journalWrites(t, nil))
	reached := map[string]bool{}
	for n := range 2 * writes {
		dir := t.TempDir()
		killed, log := filepath.Join(dir, "killed.db"), filepath.Join(dir, "hits")
		closeStore(t, openFile(t, killed)) // migrated, so that the first hit is the first write
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestKillAtEveryWriteLeavesWholeWritesOnly$")
		cmd.Env = append(cmd.Environ(), "CRASH_TEST_DB="+killed, fmt.Sprintf("CLAUDEOPS_FAILPOINT=*:%d", n+1), "CLAUDEOPS_FAILPOINT_LOG="+log)
		out, err := cmd.CombinedOutput()
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("kill %d: %v\n%s", n, err, out)
		}
		hits, err := os.ReadFile(log)
		must(t, err)
		names := strings.Fields(string(hits))
		last := names[len(names)-1]
		reached[last] = true

		whole := filepath.Join(dir, "whole.db")
		s := openFile(t, whole)
		for _, write := range journalWrites(t, s)[:(n+1)/2] {
			write()
		}
		// s stays open, as the killed process left its database.
		if got, want := everything(t, killed), everything(t, whole); got != want {
			t.Errorf("killed at %s (hit %d):\n got  %s\n want %s", last, n+1, got, want)
		}
	}
	for op := range strings.FieldsSeq("submit claim commit start_session note_process transcript release notice answer answer_incident") {
		for _, when := range []string{".before", ".after"} {
			if !reached[op+when] {
				t.Errorf("no process was killed at %s", op+when)
			}
		}
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
