package storetest

import (
	"testing"

	"claudeops/internal/ops"
)

func fenceCases() []testCase {
	return []testCase{
		{"a write of an older term changes nothing", olderTermChangesNothing},
		{"a write of a host that does not hold the cycle changes nothing", otherHostChangesNothing},
		{"a write of an unknown host changes nothing", unknownHostChangesNothing},
		{"a write after release changes nothing", writeAfterReleaseChangesNothing},
		{"each registration begins a term of its own host", registrationBeginsTerm},
	}
}

// refusesEveryWrite tries all fenced writes as owner.
func (f *Fixture) refusesEveryWrite(t *testing.T, owner ops.Owner, running ops.Session) {
	t.Helper()
	before := f.snapshot(t, running.CycleID)
	ctx := t.Context()
	writes := map[string]func() error{
		"commit": func() error {
			_, err := f.Store.Commit(ctx, owner, f.Escalation(running, 1))
			return err
		},
		"finish": func() error {
			_, err := f.Store.Commit(ctx, owner, ops.Transition{
				Cycle: running.CycleID, At: f.At, Step: ops.Step{Kind: ops.StepFinish, Status: ops.CycleFailed},
			})
			return err
		},
		"start": func() error {
			_, err := f.Store.StartSession(ctx, owner, running.ID, "planned", f.At, ops.BudgetAsk{Want: 1})
			return err
		},
		"note":       func() error { return f.Store.NoteProcess(ctx, owner, running.ID, 4711, "99") },
		"transcript": func() error { return f.Store.AppendTranscript(ctx, owner, running.ID, []ops.Line{{Seq: 1, At: f.At}}) },
		"guard": func() error {
			_, err := f.Store.RecordGuard(ctx, owner, f.judged(running, "toolu_fence"), restart("web"), limits())
			return err
		},
		"release actions": func() error {
			_, err := f.Store.ReleaseActions(ctx, owner, running.ID, "toolu_fence")
			return err
		},
		"release": func() error { return f.Store.Release(ctx, owner, running.CycleID) },
	}
	for name, write := range writes {
		t.Run(name, func(t *testing.T) { wantErr(t, write(), ops.ErrFenced) })
	}
	equal(t, "journal", f.snapshot(t, running.CycleID), before)
}

func olderTermChangesNothing(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	NewFixture(t, f.Store)
	f.refusesEveryWrite(t, f.Owner, session)
	_, err := f.Store.Claim(t.Context(), f.Owner, f.Submit(t, "office"), Policy(), Start)
	wantErr(t, err, ops.ErrFenced)
}

func otherHostChangesNothing(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	other, err := f.Store.RegisterHost(t.Context(), "host-b")
	must(t, err)
	f.refusesEveryWrite(t, other, session)
}

func unknownHostChangesNothing(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	f.refusesEveryWrite(t, ops.Owner{Host: "nobody", Term: 1}, session)
	f.refusesEveryWrite(t, ops.Owner{}, session)
}

func writeAfterReleaseChangesNothing(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	must(t, f.Store.Release(t.Context(), f.Owner, session.CycleID))
	f.refusesEveryWrite(t, f.Owner, session)
}

func registrationBeginsTerm(t *testing.T, f *Fixture) {
	equal(t, "first", f.Owner, ops.Owner{Host: Host, Term: 1})
	other, err := f.Store.RegisterHost(t.Context(), "host-b")
	must(t, err)
	equal(t, "other host", other, ops.Owner{Host: "host-b", Term: 1})
	again, err := f.Store.RegisterHost(t.Context(), Host)
	must(t, err)
	equal(t, "again", again, ops.Owner{Host: Host, Term: 2})
	if _, err := f.Store.RegisterHost(t.Context(), ""); err == nil {
		t.Error("a host without a name was accepted")
	}
}
