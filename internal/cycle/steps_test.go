package cycle_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/cycletest"
	"claudeops/test/storetest"
)

// replayed decides every stored step again, and returns those of the cycle. All that were written are stored, and in little space.
func (r *rehearsal) replayed() (frames []json.RawMessage) {
	r.t.Helper()
	const most = 6 << 10 // bytes of a step, on average in one chain; in all of them together it is a third of that
	all := storetest.ReplaySteps(r.t, r.store)
	size := 0
	for _, s := range all {
		if size += len(s.Facts); s.Cycle == r.id {
			frames = append(frames, s.Facts)
		}
	}
	r.t.Logf("%d steps take %d bytes", len(all), size)
	if len(all) != r.tape.written || size > most*len(all) {
		r.t.Errorf("%d of %d steps are stored, in %d bytes", len(all), r.tape.written, size)
	}
	return frames
}

// Every claim of a cycle begins anew with what is stored of its steps: another worker does not know what the last one wrote.
func TestStepsOfAWorkerThatDiedAndOfTheNextAreDecidedAgain(t *testing.T) {
	storetest.NewFile(t) // not within a bubble
	for name, claims := range map[string]int{
		"healthy": 1, "three-tiers-by-resume": 1, "rate-limited-twice": 1, "overloaded-at-tier-2": 2, "crash-in-tier-2": 2,
		"crash-in-tier-1-twice": 3, "approved-twice": 3,
	} {
		c := chains()[slices.IndexFunc(chains(), func(c chain) bool { return c.name == name })]
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRehearsal(t, c)
				defer func() { r.must(r.store.Close()) }()
				r.Clock = func() time.Time { // no two looks at it agree, and the database keeps less of it
					pass(1234567)
					return clock()
				}
				r.perform(c)
				anew := 0
				for _, raw := range r.replayed() {
					if strings.Contains(string(raw), `"cycle.Policy"`) {
						anew++
					}
				}
				if anew != claims {
					t.Errorf("%d steps say everything, and the cycle was claimed %d times", anew, claims)
				}
			})
		})
	}
}

// What is stored of a step is what the journal has, without secrets.
func TestStoredStepsHoldNoSecrets(t *testing.T) {
	storetest.NewFile(t) // not within a bubble
	synctest.Test(t, func(t *testing.T) {
		const secret = "hunter2"
		handoff := strings.Replace(string(handoffJSON(ops.Tier2)), "wrong upstream", "the password is "+secret, 1)
		c := chain{policy: policy(), acts: []act{leaves(handoff), well}}
		r := newRehearsal(t, c)
		defer func() { r.must(r.store.Close()) }()
		r.Redact = func(s string) string { return strings.ReplaceAll(s, secret, "[redacted]") }
		r.perform(c)
		frames := r.replayed()
		taken, err := cycletest.DecodeFrames(frames)
		r.must(err)
		taken = taken[1:] // the first one queued the session
		if said := string(taken[0].Journal.Sessions[0].HandoffJSON); !strings.Contains(said, "the password is [redacted]") {
			t.Errorf("the handoff is %s", said)
		}
		for i, d := range taken {
			if strings.Contains(string(frames[i+1]), secret) || strings.Contains(string(d.Journal.Sessions[0].HandoffJSON), secret) {
				t.Errorf("step %d holds the secret", i+2)
			}
		}
	})
}

// A step is taken also where what it was decided from cannot be written, as JSON of an agent that is none.
func TestAStepIsTakenWithoutItsFacts(t *testing.T) {
	storetest.NewFile(t) // not within a bubble
	synctest.Test(t, func(t *testing.T) {
		c := chain{policy: policy(), acts: []act{replies(`{`)}}
		r := newRehearsal(t, c)
		defer func() { r.must(r.store.Close()) }()
		r.perform(c)
		got, err := r.store.Journal.Cycle(t.Context(), r.id)
		r.must(err)
		if steps := storetest.ReplaySteps(t, r.store); !got.Status.Ended() || len(steps) != 1 || r.tape.written != 2 {
			t.Errorf("the cycle is %s, and %d of %d steps are stored", got.Status, len(steps), r.tape.written)
		}
	})
}

// Whether people know of a problem already is asked when a session has ended, not when it began: they may have closed the incident since.
func TestAnIncidentThatIsClosedWhileAnAgentWorksIsToldAgain(t *testing.T) {
	storetest.NewFile(t) // its template is made once, and not within a bubble
	synctest.Test(t, func(t *testing.T) {
		closes := func(r *rehearsal, spec ops.SessionSpec) ops.RunResult {
			_, err := r.store.People.ResolveIncident(t.Context(), r.incident().ID, "ada", "done", clock())
			r.must(err)
			return says(ops.OutcomeNeedsHuman)(r, spec)
		}
		r := newRehearsal(t, chain{policy: resuming(), acts: []act{says(ops.OutcomeNeedsHuman), closes}})
		defer func() { r.must(r.store.Close()) }()
		r.earlier()
		r.submit(ops.NewCycle{})
		r.advance()
		told, err := r.store.People.NoticeList(t.Context(), store.NoticeFilter{})
		r.must(err)
		if len(told) != 2 || r.incident().LastCycle != r.id {
			t.Errorf("told %+v", told)
		}
	})
}
