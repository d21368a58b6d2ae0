package decide_test

import (
	"strings"
	"testing"
	"time"

	"claudeops/internal/decide"
	"claudeops/internal/ops"
)

func TestAnUpdateGoesOnByItsTable(t *testing.T) {
	now := time.Date(2026, 11, 15, 4, 0, 0, 0, time.UTC)
	row := func(p ops.UpdatePhase, change ...func(*ops.Update)) ops.Update {
		u := ops.Update{
			ID: 3, Service: "web", Person: "ada", Phase: p, PhaseAt: now, Result: "worse than before: web",
			Before: ops.Image{Ref: "web:1", ID: "old"}, After: ops.Image{Ref: "web:1", ID: "new"},
		}
		for _, c := range change {
			c(&u)
		}
		return u
	}
	byItself := func(u *ops.Update) { u.Person = "" }
	since := func(d time.Duration) func(*ops.Update) {
		return func(u *ops.Update) { u.PhaseAt = now.Add(-d) }
	}
	type facts = decide.UpdateFacts
	worse := []string{"web"}
	for _, tt := range []struct {
		row    string
		u      ops.Update
		f      facts
		effect decide.UpdateEffect
		phase  ops.UpdatePhase
		why    string
	}{
		{"ended", row(ops.UpdateKept), facts{}, "", "", ""},
		{"waits for a yes", row(ops.UpdateWaiting, since(1000*time.Hour)), facts{}, "", "", ""},
		{"not trusted", row(ops.UpdateAsked, byItself), facts{Trust: ops.TrustSuggest}, "", ops.UpdateRefused, "trust in web is suggest"},
		{"needs a yes", row(ops.UpdateAsked, byItself), facts{Trust: ops.TrustAsk}, "", ops.UpdateWaiting, ""},
		{"free", row(ops.UpdateAsked, byItself), facts{Trust: ops.TrustRepair}, "", ops.UpdatePulling, ""},
		{"free", row(ops.UpdateAsked), facts{Trust: ops.TrustWatch}, "", ops.UpdatePulling, ""},
		{"held", row(ops.UpdateAsked), facts{Held: "incident 4 is open"}, "", ops.UpdateRefused, "incident 4 is open"},
		{"held, and waits", row(ops.UpdateAsked, byItself, since(time.Hour)), facts{Held: "incident 4 is open"}, "", "", ""},
		{"too late", row(ops.UpdateAsked, byItself, since(3*time.Hour)), facts{Held: "incident 4 is open"}, "", ops.UpdateRefused, "incident 4 is open"},
		{"too late", row(ops.UpdateAsked, since(3*time.Minute)), facts{}, "", ops.UpdateRefused, "ask again"},
		{"too high", row(ops.UpdateAsked, byItself), facts{Tier: ops.Tier3, MaxTier: ops.Tier1}, "", ops.UpdateRefused, "the maximum tier is 1"},
		{"free", row(ops.UpdateAsked), facts{Tier: ops.Tier3, MaxTier: ops.Tier1}, "", ops.UpdatePulling, ""},
		{"held before the change", row(ops.UpdateTagged, since(time.Minute)), facts{Image: "old", Held: "cycle 7 works"}, "", "", ""},
		{"too late", row(ops.UpdateTagged, since(3*time.Minute)), facts{Image: "old", Held: "cycle 7 works"}, "", ops.UpdateRefused, "cycle 7 works"},
		{"taken out before the change", row(ops.UpdateTagged), facts{Held: "not configured", Failed: "it is not configured any more"}, "", ops.UpdateRefused, "not configured any more"},
		{"taken out while it was watched", row(ops.UpdateWatching, since(time.Hour)), facts{Image: "new", Failed: "it is not configured any more"}, "", ops.UpdateRefused, "nobody watches the new image"},
		{"not pulled", row(ops.UpdatePulling), facts{}, decide.EffectPull, "", ""},
		{"not to be had", row(ops.UpdatePulling), facts{Done: decide.EffectPull, Failed: "no such image"}, "", ops.UpdateRefused, "no such image"},
		{"pulled", row(ops.UpdatePulling), facts{Done: decide.EffectPull}, "", ops.UpdateTagged, ""},
		{"nothing newer", row(ops.UpdateTagged, func(u *ops.Update) { u.After.ID = "old" }), facts{}, "", ops.UpdateUnchanged, "web:1 is the newest"},
		{"tagged", row(ops.UpdateTagged), facts{Image: "old"}, "", ops.UpdateRecreating, ""},
		{"not recreated", row(ops.UpdateRecreating), facts{Image: "old"}, decide.EffectChange, "", ""},
		{"recreated", row(ops.UpdateRecreating), facts{Image: "new"}, "", ops.UpdateWatching, ""}, // also after a crash
		{"recreated otherwise", row(ops.UpdateRecreating), facts{Image: "other", Done: decide.EffectChange}, "", ops.UpdateGoingBack, "not with the new image"},
		{"cannot be recreated", row(ops.UpdateRecreating), facts{Image: "new", Done: decide.EffectChange, Failed: "port taken"}, "", ops.UpdateGoingBack, "port taken"},
		{"watching", row(ops.UpdateWatching, since(time.Minute)), facts{Image: "new"}, "", "", ""},
		{"watching", row(ops.UpdateWatching, since(time.Minute)), facts{}, "", "", ""},
		{"may still start", row(ops.UpdateWatching, since(time.Second)), facts{Image: "new", Worse: worse}, "", "", ""},
		{"worse", row(ops.UpdateWatching, since(time.Minute)), facts{Image: "new", Worse: worse}, "", ops.UpdateGoingBack, "worse than before: web"},
		{"worse", row(ops.UpdateWatching, since(time.Hour)), facts{Image: "new", Worse: worse}, "", ops.UpdateGoingBack, "worse than before: web"},
		{"watched", row(ops.UpdateWatching, since(10*time.Minute)), facts{Image: "new"}, "", ops.UpdateKept, "within 10m"},
		{"its container contradicts", row(ops.UpdateWatching), facts{Image: "new", Against: "its container is unhealthy"}, "", ops.UpdateGoingBack, "is unhealthy"},
		{"watching", row(ops.UpdateWatching, since(11*time.Minute)), facts{Image: "new", Doubt: "its container is unhealthy"}, "", "", ""},
		{"never seen well", row(ops.UpdateWatching, since(20*time.Minute)), facts{Doubt: "the container engine does not answer"}, "", ops.UpdateStuck, "engine does not answer"},
		{"replaced by somebody", row(ops.UpdateWatching), facts{Image: "other"}, "", ops.UpdateRefused, "somebody replaced"},
		{"not back", row(ops.UpdateGoingBack), facts{Image: "new", Running: true}, decide.EffectBack, "", ""},
		{"not back", row(ops.UpdateGoingBack), facts{Image: "old"}, decide.EffectBack, "", ""},
		{"way back unverified", row(ops.UpdateGoingBack), facts{Image: "old", Running: true}, decide.EffectVerify, "", ""}, // after a crash
		{"way back unverified", row(ops.UpdateGoingBack), facts{Image: "old", Running: true, Done: decide.EffectBack}, decide.EffectVerify, "", ""},
		{"way back fails", row(ops.UpdateGoingBack), facts{Image: "new", Done: decide.EffectBack, Failed: "disk full"}, "", ops.UpdateStuck, "the way back failed: disk full"},
		{"way back does not help", row(ops.UpdateGoingBack), facts{Image: "old", Running: true, Done: decide.EffectVerify, Worse: worse}, "", ops.UpdateStuck, "may have changed its data"},
		{"back", row(ops.UpdateGoingBack), facts{Image: "old", Running: true, Done: decide.EffectVerify}, "", ops.UpdateGoneBack, "worse than before: web"},
	} {
		tt.f.Watch, tt.f.Settle = 10*time.Minute, 30*time.Second
		got := decide.Update(tt.u, tt.f, now)
		if got.Row != tt.row || got.Effect != tt.effect || got.Phase != tt.phase || !strings.Contains(got.Why, tt.why) {
			t.Errorf("%s by %q with %+v: %+v, want %s", tt.u.Phase, tt.u.Person, tt.f, got, tt.row)
		}
	}
}

// Silence never approves: what waits for a person waits for as long as nobody says yes.
func TestAnUpdateThatNobodyApprovedNeverRuns(t *testing.T) {
	now := time.Date(2026, 11, 15, 4, 0, 0, 0, time.UTC)
	for _, phase := range []ops.UpdatePhase{ops.UpdateAsked, ops.UpdateWaiting} {
		for age := time.Duration(0); age < 1000*time.Hour; age += 37 * time.Minute {
			got := decide.Update(ops.Update{Phase: phase, PhaseAt: now.Add(-age)}, decide.UpdateFacts{Trust: ops.TrustAsk}, now)
			if got.Effect != "" || got.Phase.Runs() {
				t.Fatalf("%s after %s: %+v", phase, age, got)
			}
		}
	}
}
