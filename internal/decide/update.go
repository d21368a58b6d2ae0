package decide

import (
	"fmt"
	"strings"
	"time"

	"claudeops/internal/ops"
)

const (
	// updateTaken is how long a person's request waits for a host: an old one must not surprise anybody.
	updateTaken = 2 * time.Minute
	// updateLate is how long an update of the schedule waits until nothing holds it back.
	updateLate = 2 * time.Hour
)

// UpdateEffect is what a host does for an update.
type UpdateEffect string

// The effects. Each can be repeated after a crash.
const (
	EffectNone   UpdateEffect = ""
	EffectPull   UpdateEffect = "pull"   // find the image, bring it here and keep the old one
	EffectChange UpdateEffect = "change" // recreate the service with the new image
	EffectBack   UpdateEffect = "back"   // recreate the service with the old image
	EffectVerify UpdateEffect = "verify" // look until nothing is worse than before, or the time to start is over
)

// UpdateFacts are what is known besides the row.
type UpdateFacts struct {
	Trust   ops.Trust
	Tier    ops.Tier      // of the action that updates the service
	MaxTier ops.Tier      // the highest that is allowed
	Held    string        // why nothing may be begun now
	Watch   time.Duration // how long a change is watched
	Settle  time.Duration // how long the services may take to start
	Image   string        // the id of the image of the container; empty: there is none, or it was never started
	Running bool          // the container
	Worse   []string      // services that are worse than before, twice in a row
	Against string        // what speaks against the container itself, whatever probes say
	Doubt   string        // what the last look found and the next one has to confirm, or why it saw nothing
	Done    UpdateEffect  // the last thing that this process did in this phase
	Failed  string        // why that failed
}

// UpdateStep is what happens next to an update: an effect, or another phase. Neither means to look again later.
type UpdateStep struct {
	Row    string
	Effect UpdateEffect
	Phase  ops.UpdatePhase
	Why    string
}

// updating is an update with all that its next step follows from.
type updating struct {
	ops.Update
	UpdateFacts
	now time.Time
}

// updateRow is one line of the table of updates: the first whose condition holds decides.
type updateRow struct {
	name string
	when func(updating) bool
	then func(updating) UpdateStep
}

func updateTable() []updateRow {
	return []updateRow{
		{"ended", func(u updating) bool { return u.Phase.Ended() }, updateRests},
		{"waits for a yes", in(ops.UpdateWaiting), updateRests},
		{"not trusted", updating.untrusted, ends(ops.UpdateRefused, updating.trustTooLow)},
		{"needs a yes", updating.unapproved, moves(ops.UpdateWaiting)},
		{"too high", updating.tooHigh, ends(ops.UpdateRefused, updating.higher)},
		{"too late", updating.late, ends(ops.UpdateRefused, updating.lateness)},
		{"held, and waits", updating.heldForNow, updateRests},
		{"held", updating.held, ends(ops.UpdateRefused, func(u updating) string { return u.Held })},
		{"free", in(ops.UpdateAsked), moves(ops.UpdatePulling)},
		{"not to be had", failedIn(ops.UpdatePulling), ends(ops.UpdateRefused, func(u updating) string { return u.Failed })},
		{"not pulled", before(ops.UpdatePulling, EffectPull), does(EffectPull)},
		{"pulled", in(ops.UpdatePulling), moves(ops.UpdateTagged)},
		{"nothing newer", updating.same, ends(ops.UpdateUnchanged, updating.newest)},
		{"taken out before the change", failedIn(ops.UpdateTagged), ends(ops.UpdateRefused, func(u updating) string { return u.Failed })},
		{"held before the change", updating.heldStill, updateRests},
		{"tagged", in(ops.UpdateTagged), moves(ops.UpdateRecreating)},
		{"cannot be recreated", failedIn(ops.UpdateRecreating), ends(ops.UpdateGoingBack, updating.notRecreated)},
		{"recreated", updating.recreated, moves(ops.UpdateWatching)},
		{"not recreated", before(ops.UpdateRecreating, EffectChange), does(EffectChange)},
		{"recreated otherwise", in(ops.UpdateRecreating), ends(ops.UpdateGoingBack, updating.notRecreated)},
		{"replaced by somebody", updating.replaced, ends(ops.UpdateRefused, func(updating) string {
			return "somebody replaced the container while it was watched; nothing more is done"
		})},
		{"taken out while it was watched", failedIn(ops.UpdateWatching), ends(ops.UpdateRefused, func(u updating) string {
			return u.Failed + "; nobody watches the new image, and nothing more is done"
		})},
		{"its container contradicts", updating.contradicted, ends(ops.UpdateGoingBack, func(u updating) string { return u.Against })},
		{"may still start", updating.starting, updateRests},
		{"worse", updating.worsened, ends(ops.UpdateGoingBack, updating.worseThanBefore)},
		{"watched", updating.watched, ends(ops.UpdateKept, func(u updating) string {
			return fmt.Sprintf("nothing was worse than before within %s", u.Watch)
		})},
		{"never seen well", updating.unseen, ends(ops.UpdateStuck, func(u updating) string {
			return "nobody can say whether it works: " + u.Doubt
		})},
		{"watching", in(ops.UpdateWatching), updateRests},
		{"way back fails", failedIn(ops.UpdateGoingBack), ends(ops.UpdateStuck, func(u updating) string {
			return u.Result + "; the way back failed: " + u.Failed
		})},
		{"not back", updating.notBack, does(EffectBack)},
		{"way back unverified", before(ops.UpdateGoingBack, EffectVerify), does(EffectVerify)},
		{"way back does not help", func(u updating) bool { return len(u.Worse) > 0 }, ends(ops.UpdateStuck, func(u updating) string {
			return fmt.Sprintf("%s; with the old image again, %s: the new version may have changed its data", u.Result, u.worseThanBefore())
		})},
		{"back", in(ops.UpdateGoingBack), ends(ops.UpdateGoneBack, func(u updating) string { return u.Result })},
	}
}

// Update decides what happens next to an update. It reads nothing but its arguments.
func Update(u ops.Update, f UpdateFacts, now time.Time) UpdateStep {
	all := updating{u, f, now}
	for _, r := range updateTable() {
		if r.when(all) {
			step := r.then(all)
			step.Row = r.name
			return step
		}
	}
	return UpdateStep{Row: "none"}
}

func updateRests(updating) UpdateStep { return UpdateStep{} }

func does(e UpdateEffect) func(updating) UpdateStep {
	return func(updating) UpdateStep { return UpdateStep{Effect: e} }
}

func moves(to ops.UpdatePhase) func(updating) UpdateStep {
	return func(updating) UpdateStep { return UpdateStep{Phase: to} }
}

func ends(to ops.UpdatePhase, why func(updating) string) func(updating) UpdateStep {
	return func(u updating) UpdateStep { return UpdateStep{Phase: to, Why: why(u)} }
}

func in(p ops.UpdatePhase) func(updating) bool { return func(u updating) bool { return u.Phase == p } }

// before: the effect has not been done in this phase.
func before(p ops.UpdatePhase, e UpdateEffect) func(updating) bool {
	return func(u updating) bool { return u.Phase == p && u.Done != e }
}

func failedIn(p ops.UpdatePhase) func(updating) bool {
	return func(u updating) bool { return u.Phase == p && u.Failed != "" }
}

// scheduled: nobody has asked for it, or said yes to it.
func (u updating) scheduled() bool { return u.Phase == ops.UpdateAsked && u.Person == "" }

func (u updating) untrusted() bool  { return u.scheduled() && u.Trust.Below(ops.TrustAsk) }
func (u updating) unapproved() bool { return u.scheduled() && u.Trust == ops.TrustAsk }

func (u updating) trustTooLow() string {
	return fmt.Sprintf("trust in %s is %s; the schedule asks from ask on and updates from repair on, and a person can always ask",
		u.Service, u.Trust)
}

// patience is how long it may be held back.
func (u updating) patience() time.Duration {
	if u.Person == "" {
		return updateLate
	}
	return updateTaken
}

// late: it was held back for too long, before it began or before anything was changed.
func (u updating) late() bool {
	return (u.Phase == ops.UpdateAsked || u.heldStill()) && u.now.Sub(u.PhaseAt) > u.patience()
}

// heldStill: something came up while the image was pulled, such as an outage that an agent works on.
func (u updating) heldStill() bool { return u.Phase == ops.UpdateTagged && u.Held != "" }

// tooHigh: the schedule does no more than agents and reflexes may. Whoever asks himself decides himself.
func (u updating) tooHigh() bool { return u.scheduled() && u.Tier > u.MaxTier }

func (u updating) higher() string {
	return fmt.Sprintf("updates are of %s, and the maximum tier is %d; a person can always ask", u.Tier, u.MaxTier)
}

func (u updating) lateness() string {
	if u.Held != "" {
		return u.Held
	}
	return "no host began with it in time; ask again"
}

func (u updating) held() bool       { return u.Phase == ops.UpdateAsked && u.Held != "" }
func (u updating) heldForNow() bool { return u.held() && u.Person == "" }

func (u updating) same() bool     { return u.Phase == ops.UpdateTagged && u.After.ID == u.Before.ID }
func (u updating) newest() string { return u.Before.String() + " is the newest" }

func (u updating) recreated() bool { return u.Phase == ops.UpdateRecreating && u.Image == u.After.ID }

func (u updating) notRecreated() string {
	if u.Failed != "" {
		return "it could not be recreated: " + u.Failed
	}
	return "it was recreated, but not with the new image"
}

func (u updating) replaced() bool {
	return u.Phase == ops.UpdateWatching && u.Image != "" && u.Image != u.After.ID
}

func (u updating) worsened() bool { return u.Phase == ops.UpdateWatching && len(u.Worse) > 0 }

// starting: it is worse, and may still become better by itself.
func (u updating) starting() bool {
	return u.worsened() && u.now.Sub(u.PhaseAt) < min(u.Settle, u.Watch)
}

func (u updating) contradicted() bool { return u.Phase == ops.UpdateWatching && u.Against != "" }

func (u updating) watched() bool {
	return u.Phase == ops.UpdateWatching && u.Doubt == "" && u.now.Sub(u.PhaseAt) >= u.Watch
}

// unseen: it was watched for twice as long, and no look has settled what the last one left open.
func (u updating) unseen() bool {
	return u.Phase == ops.UpdateWatching && u.Doubt != "" && u.now.Sub(u.PhaseAt) >= 2*u.Watch
}

func (u updating) worseThanBefore() string {
	return "worse than before: " + strings.Join(u.Worse, ", ")
}

func (u updating) notBack() bool {
	return u.Phase == ops.UpdateGoingBack && u.Done == EffectNone && (u.Image != u.Before.ID || !u.Running)
}
